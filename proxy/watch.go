package proxy

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// longAgo is a deadline that makes a waiting read return at once.
var longAgo = time.Unix(1, 0)

// watcher tells that a client has left while nothing is read from or written
// to its connection. fasthttp has no such signal.
//
// A goroutine waits on the runtime's poller without reading a byte; Linux wakes
// it when the peer's FIN or RST arrives (POLLRDHUP), even behind pipelined
// bytes. A half-closed connection counts as left, as in nginx and Envoy.
type watcher struct {
	conn net.Conn // nil while nothing is watched
	left func()   // called when the peer goes away
	ask  func(fd uintptr) bool
	gone bool // the watching goroutine's own, until done
	done chan struct{}
}

// init makes w ready for use: left is called, from another goroutine and at
// most once a watch, when the peer goes away.
func (w *watcher) init(left func()) {
	w.left = left
	w.done = make(chan struct{}, 1)
	w.ask = func(fd uintptr) bool {
		w.gone = hungUp(fd)
		return w.gone
	}
}

// start watches c and reports whether it can. Then the caller must call stop,
// on the goroutine that serves c, before it lets anybody read from c again.
func (w *watcher) start(c net.Conn) bool {
	raw := rawConn(c)
	if raw == nil || c.SetReadDeadline(time.Time{}) != nil { // the server's own time-out would end the watch
		return false
	}
	w.conn, w.gone = c, false
	go w.wait(raw)
	return true
}

func (w *watcher) wait(raw syscall.RawConn) {
	_ = raw.Read(w.ask)
	if w.gone {
		w.left()
	}
	w.done <- struct{}{}
}

// stop ends the watch, if there is one, and waits for its goroutine. It leaves
// an expired read deadline on the connection: the server sets its own before it
// reads on.
func (w *watcher) stop() {
	if w.conn == nil {
		return
	}
	_ = w.conn.SetReadDeadline(longAgo)
	<-w.done
	w.conn = nil
}

// rawConn finds the socket below c; TLS connections name theirs.
func rawConn(c net.Conn) syscall.RawConn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// peerLeft reports whether the peer of c has closed its side.
func peerLeft(c net.Conn) bool {
	raw := rawConn(c)
	left := false
	return raw != nil && raw.Control(func(fd uintptr) { left = hungUp(fd) }) == nil && left
}

// hungUp reports whether the peer of a socket has gone away.
func hungUp(fd uintptr) bool { return polled(fd, unix.POLLRDHUP) }

// readable reports whether there is anything to read, an end or an error
// included.
func readable(fd uintptr) bool { return polled(fd, unix.POLLRDHUP|unix.POLLIN) }

func polled(fd uintptr, events int16) bool {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: events}}
	n, err := unix.Poll(fds[:], 0)
	return err == nil && n > 0 && fds[0].Revents&(events|unix.POLLHUP|unix.POLLERR) != 0
}
