package redistest

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// startTimeout is how long a server may take until it accepts connections.
const startTimeout = 30 * time.Second

// Server is a redis-server process. Its methods fail the test that started it
// and are meant for that test's goroutine.
type Server struct {
	t    testing.TB
	args []string
	dir  string
	port int

	cmd    *exec.Cmd
	log    []string      // the process's output; read it only after exited is closed
	exited chan struct{} // closed once the process is gone
}

// Start runs a redis-server until the test ends. It appends every write to a
// file, so that even a killed server comes back with its data. More arguments
// of redis-server may follow, such as "--maxmemory", "10mb".
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, args: append([]string{binary(t)}, args...), dir: t.TempDir()}
	t.Cleanup(s.Kill)
	for range 5 {
		s.port = freePort(t)
		if s.run() {
			return s
		}
	}
	t.Fatalf("redis-server does not start:\n%s", strings.Join(s.log, "\n"))
	return nil
}

// Addr is the server's host:port. It stays the same over restarts.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Dir is where the server keeps its data, the file of all writes included.
func (s *Server) Dir() string { return s.dir }

// Client returns a new client, closed when the test ends.
func (s *Server) Client() redis.UniversalClient { return client(s.t, s.Addr()) }

// Stop asks the server to end in good order and waits until it has.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Kill ends the server at once, paused or not, and waits until it is gone.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Pause freezes the server: its connections stay open and nothing answers.
func (s *Server) Pause() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
}

// Continue ends a Pause.
func (s *Server) Continue() {
	s.t.Helper()
	s.signal(syscall.SIGCONT)
}

// Restart starts a server that was stopped or killed again, with its data.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	// Something else may have taken the port for a moment; it is ours again soon.
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		if s.run() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.t.Fatalf("redis-server does not start again:\n%s", strings.Join(s.log, "\n"))
}

// RestartEmpty starts the server again without its data, as if its disk had
// been lost.
func (s *Server) RestartEmpty() {
	s.t.Helper()
	s.Kill()
	entries, err := filepath.Glob(filepath.Join(s.dir, "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(entry); err != nil {
			s.t.Fatal(err)
		}
	}
	s.Restart()
}

// run starts the process and reports whether it came to accept connections.
func (s *Server) run() bool {
	args := slices.Concat([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "yes", "--loglevel", "notice",
	}, s.args[1:])
	s.cmd = exec.Command(s.args[0], args...)
	dieWithParent(s.cmd)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("redis-server: %v", err)
	}
	s.log, s.exited = nil, make(chan struct{})
	ready := make(chan struct{})
	go s.watch(s.cmd, out, ready)
	return s.await(ready)
}

// watch reads the server's output to its end and reaps the process.
func (s *Server) watch(cmd *exec.Cmd, out io.Reader, ready chan<- struct{}) {
	defer close(s.exited)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		s.log = append(s.log, lines.Text())
		if ready != nil && strings.Contains(lines.Text(), "Ready to accept connections") {
			close(ready)
			ready = nil
		}
	}
	_ = cmd.Wait() // its exit status says only how the test ended it
}

func (s *Server) await(ready <-chan struct{}) bool {
	select {
	case <-ready:
		return true
	case <-s.exited:
		return false
	case <-time.After(startTimeout):
		s.Kill()
		return false
	}
}

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("redis-server: signal %v: %v", sig, err)
	}
}

func (s *Server) end(sig syscall.Signal) {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Signal(sig) // it may be gone already
	_ = s.cmd.Process.Signal(syscall.SIGCONT)
	<-s.exited
}

// freePort stays below the range from which the kernel gives ports to outgoing
// connections: one of those could take the port while the server is down.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 20000 + rand.IntN(10000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}
