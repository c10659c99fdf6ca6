package proxy

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// longAgo is a deadline that makes a waiting read or write return at once.
var longAgo = time.Unix(1, 0)

// hangups tells when the peers of sockets go away, by FIN or RST, whatever
// bytes before it are still unread. fasthttp has no such signal, and the
// runtime's poller tells a reader only, once it has read so far.
//
// One epoll instance watches all sockets for nothing but their end
// (EPOLLRDHUP), and is itself waited on through the runtime's poller. A socket
// is entered once in its life; an exchange on it costs no system call. A
// half-closed connection counts as left, as in nginx and Envoy.
type hangups struct {
	epoll *os.File
	raw   syscall.RawConn // the epoll instance's
	ended chan struct{}   // run has returned

	mu    sync.Mutex
	peers map[uint64]*peer // by what the kernel hands back with an event
	last  uint64
}

// newHangups starts watching; close ends it.
func newHangups() (*hangups, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch for clients that leave: %w", err)
	}
	_ = unix.SetNonblock(fd, true) // cannot fail; makes os.NewFile use the poller
	h := &hangups{epoll: os.NewFile(uintptr(fd), "epoll"), ended: make(chan struct{}), peers: make(map[uint64]*peer)}
	if h.raw, err = h.epoll.SyscallConn(); err != nil {
		_ = h.epoll.Close()
		return nil, fmt.Errorf("watch for clients that leave: %w", err)
	}
	go h.run()
	return h, nil
}

// close ends the watch of all sockets.
func (h *hangups) close() {
	_ = h.epoll.Close()
	<-h.ended
}

// add watches c for its peer's end. A socket that cannot be watched is only
// noted as such. forget must be called before c is closed.
func (h *hangups) add(c net.Conn, p *peer) {
	raw := rawConn(c)
	if raw == nil {
		return
	}
	h.mu.Lock()
	h.last++
	p.id = h.last
	h.peers[p.id] = p
	h.mu.Unlock()
	err := errNotWatched
	_ = raw.Control(func(fd uintptr) {
		_ = h.raw.Control(func(epoll uintptr) { err = watchEnd(epoll, fd, p.id) })
	})
	if err != nil {
		h.forget(p)
		p.id = 0
	}
}

var errNotWatched = errors.New("closed")

func watchEnd(epoll, fd uintptr, id uint64) error {
	event := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(id), Pad: int32(id >> 32)}
	return unix.EpollCtl(int(epoll), unix.EPOLL_CTL_ADD, int(fd), &event)
}

// forget ends what add began. The kernel itself drops a socket that is closed.
func (h *hangups) forget(p *peer) {
	h.mu.Lock()
	delete(h.peers, p.id)
	h.mu.Unlock()
}

// run hands out what the kernel reports, until close.
func (h *hangups) run() {
	defer close(h.ended)
	var events [64]unix.EpollEvent
	for {
		n := 0
		err := h.raw.Read(func(fd uintptr) bool {
			n, _ = unix.EpollWait(int(fd), events[:], 0)
			return n > 0
		})
		if err != nil {
			return
		}
		for _, e := range events[:n] {
			if p := h.find(uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32); p != nil {
				p.hungUp()
			}
		}
	}
}

func (h *hangups) find(id uint64) *peer {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.peers[id]
}

// peer is the other end of a socket.
type peer struct {
	id   uint64 // in hangups; 0 when it is not watched
	gone atomic.Bool

	mu   sync.Mutex
	left func() // called once when the peer goes away
}

// watch calls left when the peer goes away, at once if it has gone already,
// unless unwatch comes first. It reports whether it can.
func (p *peer) watch(left func()) bool {
	if p == nil || p.id == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone.Load() {
		left()
		return true
	}
	p.left = left
	return true
}

// unwatch ends what watch began: once it returns, left neither runs nor will.
func (p *peer) unwatch() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.left = nil
	p.mu.Unlock()
}

func (p *peer) hungUp() {
	p.gone.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left != nil {
		p.left()
		p.left = nil
	}
}

// peerOf finds the peer of a client's connection, nil if nobody watches it.
// TLS connections name the one below.
func peerOf(c net.Conn) *peer {
	if client := clientOf(c); client != nil {
		return &client.peer
	}
	return nil
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

// readable reports whether there is anything to read, an end or an error
// included.
func readable(fd uintptr) bool { return polled(fd, unix.POLLRDHUP|unix.POLLIN) }

func polled(fd uintptr, events int16) bool {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: events}}
	n, err := unix.Poll(fds[:], 0)
	return err == nil && n > 0 && fds[0].Revents&(events|unix.POLLHUP|unix.POLLERR) != 0
}
