package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mete/config"
)

// successorTime is how long a new process may take until it serves.
const successorTime = time.Minute

// succeed starts this program anew on the same sockets, and returns once the
// new process serves. When it does not, it is ended, and the error says why;
// this process then goes on as if nothing had been.
func (r *running) succeed(ctx context.Context) error {
	if r.cfg().Redis.Kind() == config.RedisEmbedded {
		return errors.New("redis is embedded: keys and limits would be lost with this process; stop it and start another")
	}
	program, err := exec.LookPath(os.Args[0])
	if err != nil {
		return fmt.Errorf("find the program: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, successorTime)
	defer cancel()
	child, ready, err := r.launch(program)
	if err != nil {
		return err
	}
	exited := make(chan string, 1)
	go func() {
		state, err := child.Wait()
		if err != nil {
			exited <- err.Error()
			return
		}
		exited <- state.String()
	}()
	select {
	case ok := <-ready:
		if ok {
			return nil
		}
		return fmt.Errorf("the new process ended before it served: %s", <-exited)
	case <-ctx.Done():
		_ = child.Kill()
		<-exited
		return fmt.Errorf("the new process did not serve: %w", ctx.Err())
	}
}

// launch starts the program with this one's arguments and sockets. ready gets
// true once it serves, false when its end of the pipe is closed before.
//
// The sockets go by their numbers: os/exec makes those that it is given block,
// and with them ours.
func (r *running) launch(program string) (child *os.Process, ready <-chan bool, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("pipe to the new process: %w", err)
	}
	defer func() { _ = write.Close() }()
	files := []uintptr{0, 1, 2}
	var listeners []string
	var descriptors []syscall.RawConn
	for _, s := range r.sockets() {
		raw, err := s.Listener.(*net.TCPListener).SyscallConn()
		if err != nil {
			_ = read.Close()
			return nil, nil, fmt.Errorf("%s listener: %w", s.what, err)
		}
		descriptors = append(descriptors, raw)
		listeners = append(listeners, fmt.Sprintf("%s=%d=%s", s.what, firstFD+len(listeners), s.address))
	}
	env := append(os.Environ(), inheritedEnv+"="+strings.Join(listeners, ","), readyEnv+"="+strconv.Itoa(firstFD+len(listeners)))
	var pid int
	err = withDescriptors(descriptors, files, func(files []uintptr) (err error) {
		files = append(files, write.Fd())
		pid, err = syscall.ForkExec(program, os.Args, &syscall.ProcAttr{Env: env, Files: files}) //nolint:gosec // this very program, with its own arguments
		return err
	})
	if err != nil {
		_ = read.Close()
		return nil, nil, fmt.Errorf("start the new process: %w", err)
	}
	child, _ = os.FindProcess(pid) // never fails
	told := make(chan bool, 1)
	go func() {
		var b [1]byte
		n, _ := read.Read(b[:])
		_ = read.Close()
		told <- n == 1
	}()
	return child, told, nil
}

// withDescriptors calls f with the numbers of the sockets behind files. They
// stay open until f returns.
func withDescriptors(sockets []syscall.RawConn, files []uintptr, f func([]uintptr) error) error {
	if len(sockets) == 0 {
		return f(files)
	}
	var err error
	closed := sockets[0].Control(func(fd uintptr) { err = withDescriptors(sockets[1:], append(files, fd), f) })
	return errors.Join(closed, err)
}

// sockets are the listeners that are open.
func (r *running) sockets() []*socket {
	open := []*socket{r.api, r.admin}
	if r.pages != nil {
		open = append(open, r.pages)
	}
	return open
}

// handOver leaves accepting to the successor. The registration in Consul is its
// own from now on.
func (r *running) handOver() {
	for _, s := range r.sockets() {
		s.hand()
	}
	r.keepRegistered()
}

// notify tells systemd how the service stands (sd_notify(3)), if it asked to be
// told: NOTIFY_SOCKET.
func notify(state string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	if path[0] == '@' {
		path = "\x00" + path[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("tell systemd: %w", err)
	}
	_, err = conn.Write([]byte(state))
	return errors.Join(err, conn.Close())
}

// monotonic is the time that systemd compares reloads by, in microseconds.
func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano() / 1000
}
