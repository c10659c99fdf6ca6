package overhead

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a child with its output in a file.
type process struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer
	output string
	exited chan struct{}
	again  func(context.Context) (*process, error) // starts it once more
	aside  bool                                    // works for the measurement, is not measured
}

// launch starts a program that ends when this process does.
func launch(dir, name string, where place, env []string, argv ...string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(argv[0], argv[1:]...), output: filepath.Join(dir, name+".out"), exited: make(chan struct{})} //nolint:gosec // programs and arguments are ours
	out, err := os.Create(p.output)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
	p.cmd.Env = append(os.Environ(), env...)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: where.nice != 0}
	if err := where.start(p.cmd); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	where.group(p.cmd.Process.Pid)
	go func() {
		_ = p.cmd.Wait() // how it ended is in its output
		close(p.exited)
	}()
	return p, nil
}

// start starts cmd from a thread that is in this place itself; the child
// inherits that, and sees a machine with one core.
func (w place) start(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer w.put(0)()
	return cmd.Start()
}

// put moves a thread to its place and returns what moves it back; 0 is the
// calling one. What the system does not allow is left as it is.
func (w place) put(tid int) (undo func()) {
	var before, only unix.CPUSet
	undo = func() {}
	if w.core >= 0 && unix.SchedGetaffinity(tid, &before) == nil {
		only.Set(w.core)
		_ = unix.SchedSetaffinity(tid, &only)
		undo = func() { _ = unix.SchedSetaffinity(tid, &before) }
	}
	if w.nice == 0 {
		return undo
	}
	_ = unix.Setpriority(unix.PRIO_PROCESS, tid, w.nice)
	unpin := undo
	return func() {
		_ = unix.Setpriority(unix.PRIO_PROCESS, tid, 0)
		unpin()
	}
}

// end stops the process, if need be by force.
func (p *process) end() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.stdin.Close()
	select {
	case <-p.exited:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// tail is the end of what the process has said.
func (p *process) tail() string {
	b, _ := os.ReadFile(p.output)
	if len(b) > 2000 {
		b = b[len(b)-2000:]
	}
	return strings.TrimSpace(string(b))
}

// family is the process with its children.
func (p *process) family() []int {
	root := p.cmd.Process.Pid
	pids := []int{root}
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", root))
	for _, path := range children {
		b, _ := os.ReadFile(path)
		for _, field := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// cpu is the processor time that the process and its children have used.
func (p *process) cpu() (time.Duration, error) {
	var sum time.Duration
	for _, pid := range p.family() {
		d, err := cpuOf(pid)
		if err != nil {
			return 0, fmt.Errorf("processor time of %s: %w", p.name, err)
		}
		sum += d
	}
	return sum, nil
}

// cpuOf reads the processor clock of another process, which counts what
// /proc/PID/stat has as utime and stime, to the nanosecond instead of to 10 ms.
func cpuOf(pid int) (time.Duration, error) {
	var ts unix.Timespec
	const perProcessScheduler = 2 // see clock_getcpuclockid(3)
	if err := unix.ClockGettime(int32(^pid<<3|perProcessScheduler), &ts); err == nil {
		return time.Duration(ts.Nano()), nil
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 13 {
		return 0, errors.New("unreadable stat")
	}
	utime, err1 := strconv.ParseInt(string(fields[11]), 10, 64)
	stime, err2 := strconv.ParseInt(string(fields[12]), 10, 64)
	return time.Duration(utime+stime) * 10 * time.Millisecond, errors.Join(err1, err2)
}

// ownCPU is the processor time that this process has used.
func ownCPU() time.Duration {
	d, _ := cpuOf(os.Getpid())
	return d
}

// resident is the memory that the process and its children hold, in bytes.
func (p *process) resident() (int64, error) {
	var sum int64
	for _, pid := range p.family() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, err
		}
		_, rest, _ := strings.Cut(string(b), "VmRSS:")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			return 0, fmt.Errorf("memory of %s: not in its status", p.name)
		}
		kib, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("memory of %s: %w", p.name, err)
		}
		sum += kib << 10
	}
	return sum, nil
}

// cores are those that this process may use.
func cores() (list []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for i := range 1024 {
		if set.IsSet(i) {
			list = append(list, i)
		}
	}
	return list
}

// rarely is how often the generator and the replicas collect garbage: their
// pauses are not what is measured.
const rarely = 800

// group sets the niceness of a process's session, which is what counts between
// sessions where the kernel groups them (autogroup in sched(7)).
func (w place) group(pid int) {
	if w.nice != 0 {
		setGroup(pid, w.nice)
	}
}

func setGroup(pid, nice int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", pid), fmt.Append(nil, nice), 0)
}

// settle puts all threads of this process into a place and returns what undoes
// that.
func (w place) settle() (undo func()) {
	threads, _ := os.ReadDir("/proc/self/task")
	gc, procs := debug.SetGCPercent(rarely), runtime.GOMAXPROCS(0)
	if w.core >= 0 {
		runtime.GOMAXPROCS(1)
	}
	for _, t := range threads {
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			w.put(tid)
		}
	}
	w.group(os.Getpid())
	return func() {
		runtime.GOMAXPROCS(procs)
		debug.SetGCPercent(gc)
		if w.nice != 0 {
			setGroup(os.Getpid(), 0)
		}
		w.leave()
	}
}

// leave lets all threads run anywhere again, those that have begun since too.
func (w place) leave() {
	var all unix.CPUSet
	for i := range 1024 {
		all.Set(i)
	}
	threads, _ := os.ReadDir("/proc/self/task")
	for _, t := range threads {
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.SchedSetaffinity(tid, &all)
			_ = unix.Setpriority(unix.PRIO_PROCESS, tid, 0)
		}
	}
}

// machine describes where the figures come from.
func machine() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	_, rest, _ := strings.Cut(string(b), "model name")
	model, _, _ := strings.Cut(strings.TrimLeft(rest, "\t :"), "\n")
	var uts unix.Utsname
	_ = unix.Uname(&uts)
	return fmt.Sprintf("%d cores, %s, Linux %s", len(cores()), model, unix.ByteSliceToString(uts.Release[:]))
}
