package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// socket is a listener that can be handed to another process, which goes on
// accepting from the same queue: no connection is lost in between.
type socket struct {
	net.Listener
	what, address string // as configured
	handed        atomic.Bool
	closed        chan struct{}
	closing       sync.Once
}

// Accept waits, once the socket was handed on, until it is closed here: then
// the server that accepts shuts down as ever.
func (s *socket) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil && s.handed.Load() {
		<-s.closed
	}
	return c, err
}

// Close may be called more than once.
func (s *socket) Close() (err error) {
	s.closing.Do(func() {
		close(s.closed)
		if err = s.Listener.Close(); s.handed.Load() {
			err = nil
		}
	})
	return err
}

// hand stops accepting here.
func (s *socket) hand() {
	s.handed.Store(true)
	_ = s.Listener.Close()
}

// listen opens a listener, or takes the one that the parent process or systemd
// has opened for it.
func listen(what, address string, open *inheritance) (*socket, error) {
	ln, err := open.take(what, address)
	if ln == nil && err == nil {
		ln, err = net.Listen("tcp", address)
	}
	if err != nil {
		return nil, fmt.Errorf("%s listener: %w", what, err)
	}
	return &socket{Listener: ln, what: what, address: address, closed: make(chan struct{})}, nil
}

// Where a new process is told of the sockets that it inherits. The first is
// systemd's (sd_listen_fds(3)); ours names listener, descriptor and the address
// that was configured, and is used if that is still the same:
// "API=3=:8080,admin=4=127.0.0.1:9090".
const (
	systemdPID   = "LISTEN_PID"
	systemdCount = "LISTEN_FDS"
	systemdNames = "LISTEN_FDNAMES"
	inheritedEnv = "METE_LISTENERS"
	readyEnv     = "METE_READY_FD" // a pipe to the parent: a byte says that we serve
	firstFD      = 3
)

// inheritance is the sockets that this process was started with, and has not
// taken yet.
type inheritance struct{ sockets []inherited }

type inherited struct {
	fd            int
	what, address string // address is empty for systemd's, which count whatever is configured
}

// inherit reads the environment, and forgets it: it is not for the processes
// that we start.
func inherit() *inheritance {
	open := &inheritance{}
	for _, entry := range strings.Split(os.Getenv(inheritedEnv), ",") {
		name, rest, _ := strings.Cut(entry, "=")
		fd, address, _ := strings.Cut(rest, "=")
		if n, err := strconv.Atoi(fd); err == nil {
			open.sockets = append(open.sockets, inherited{n, name, address})
		}
	}
	if os.Getenv(systemdPID) == strconv.Itoa(os.Getpid()) {
		open.addSystemd()
	}
	for _, name := range []string{systemdPID, systemdCount, systemdNames, inheritedEnv} {
		_ = os.Unsetenv(name)
	}
	return open
}

// addSystemd adds systemd's sockets. One whose name is none of ours is the
// API's.
func (open *inheritance) addSystemd() {
	count, _ := strconv.Atoi(os.Getenv(systemdCount))
	names := strings.Split(os.Getenv(systemdNames), ":")
	for i := range count {
		what := "API"
		if i < len(names) && (names[i] == "admin" || names[i] == "console") {
			what = names[i]
		}
		open.sockets = append(open.sockets, inherited{fd: firstFD + i, what: what})
	}
}

// take returns a listener that was inherited, nil if there is none.
func (open *inheritance) take(what, address string) (net.Listener, error) {
	i := slices.IndexFunc(open.sockets, func(s inherited) bool {
		return s.what == what && (s.address == "" || s.address == address)
	})
	if i < 0 {
		return nil, nil
	}
	fd := open.sockets[i].fd
	open.sockets = slices.Delete(open.sockets, i, i+1)
	file := os.NewFile(uintptr(fd), what)
	defer func() { _ = file.Close() }() // FileListener has a copy of its own
	ln, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("inherited descriptor %d: %w", fd, err)
	}
	if _, ok := ln.(*net.TCPListener); !ok {
		_ = ln.Close()
		return nil, fmt.Errorf("inherited descriptor %d is no TCP socket", fd)
	}
	return ln, nil
}

// drop closes what nobody took: connections would wait there for ever.
func (open *inheritance) drop() {
	for _, s := range open.sockets {
		_ = unix.Close(s.fd)
	}
	open.sockets = nil
}

// tellParent says that this process serves, to the one that started it as its
// successor, if there is one.
func tellParent() error {
	number, there := os.LookupEnv(readyEnv)
	if !there {
		return nil
	}
	fd, err := strconv.Atoi(number)
	if err != nil {
		return fmt.Errorf("%s: %w", readyEnv, err)
	}
	_ = os.Unsetenv(readyEnv)
	pipe := os.NewFile(uintptr(fd), "ready")
	_, err = pipe.Write([]byte{1})
	return errors.Join(err, pipe.Close())
}
