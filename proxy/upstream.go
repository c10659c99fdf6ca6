package proxy

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// upstream is the connections to one replica.
//
// fasthttp's HostClient is not used for them: it cannot say whether a
// connection is fresh or was used before, cannot be asked for a fresh one, and
// dials without a context, and all three decide whether a POST may be repeated.
type upstream struct {
	address string      // host:port
	host    string      // the Host header's value
	tls     *tls.Config // nil for plain HTTP
	dialer  net.Dialer
	hangups *hangups
	maxIdle time.Duration // below the replica's own idle time-out (uvicorn: 5 s)

	mu     sync.Mutex
	idle   []*upstreamConn // the last used at the end; taken from there
	closed bool
}

// upstreamConn is one connection to a replica, used by one exchange at a time.
type upstreamConn struct {
	net.Conn
	of    *upstream
	peer  peer            // the replica
	raw   syscall.RawConn // the socket; nil if it cannot be had
	since time.Time       // idle since
}

// Close closes the connection.
func (c *upstreamConn) Close() error {
	c.of.hangups.forget(&c.peer)
	return c.Conn.Close()
}

// abort ends the connection under whoever uses it, from any goroutine: reads and
// writes return at once, and the replica sees the end. Close would wait for
// them.
func (c *upstreamConn) abort() {
	if c.raw == nil || c.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) }) != nil {
		_ = c.Close()
	}
}

// receive hands what each read brings in to take, until take returns false or
// the connection ends. The slice is valid until take returns.
//
// On a plain socket it reads once for each wake-up. The runtime's poller would
// have a reader ask a second time each, to learn that there is nothing more,
// which is a good part of what relaying an event costs. A read that does not
// fill its buffer has emptied the socket, and the next bytes wake it again; only
// an end that came along with the last bytes does not, and is told by hangups.
func (c *upstreamConn) receive(take func([]byte) bool) error {
	_, plain := c.Conn.(*net.TCPConn)
	if !plain || !c.peer.watch(func() { _ = c.SetReadDeadline(longAgo) }) {
		return c.receiveRest(take)
	}
	defer c.peer.unwatch()
	var failure error
	err := c.raw.Read(func(fd uintptr) (done bool) {
		done, failure = c.receiveSome(fd, take)
		return done
	})
	if failure == errPeerGone || c.peer.gone.Load() && isTimeout(err) {
		c.peer.unwatch()
		atOnce := func() { _ = c.SetReadDeadline(time.Now().Add(time.Second)) } // all is there, its end too
		atOnce()
		return c.receiveRest(func(p []byte) bool {
			defer atOnce() // what the client took to read p does not count
			return take(p)
		})
	}
	return cmp.Or(failure, err)
}

var errPeerGone = errors.New("the peer has ended the connection")

// receiveSome reads until the socket is empty.
func (c *upstreamConn) receiveSome(fd uintptr, take func([]byte) bool) (done bool, err error) {
	buf := relayBuffers.Get().(*[streamBuffer]byte)
	defer relayBuffers.Put(buf)
	for {
		n, err := unix.Read(int(fd), buf[:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return false, nil
		case err != nil:
			return true, os.NewSyscallError("read", err)
		case n == 0:
			return true, io.EOF
		}
		switch {
		case !take(buf[:n]):
			return true, nil
		case c.peer.gone.Load():
			return true, errPeerGone
		case n < len(buf):
			return false, nil
		}
	}
}

// receiveRest is receive as any connection can do it.
func (c *upstreamConn) receiveRest(take func([]byte) bool) error {
	buf := relayBuffers.Get().(*[streamBuffer]byte)
	defer relayBuffers.Put(buf)
	for {
		n, err := c.Read(buf[:])
		if n > 0 && !take(buf[:n]) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

var relayBuffers = sync.Pool{New: func() any { return new([streamBuffer]byte) }}

// silent reports whether nothing waits to be read, not even an end.
func (c *upstreamConn) silent() bool {
	if c.raw == nil {
		return true
	}
	silent := false
	err := c.raw.Control(func(fd uintptr) { silent = !readable(fd) })
	return err == nil && silent
}

// take returns the idle connection that was used last, nil if there is none.
// One on which the replica has sent anything, or an end, is not used again:
// bytes that nobody asked for would be read as the next request's answer.
func (u *upstream) take(now time.Time) *upstreamConn {
	for {
		c := u.pop(now)
		if c == nil || c.silent() {
			return c
		}
		_ = c.Close()
	}
}

// pop takes the last used of the connections that the replica can be trusted
// to hold open still.
func (u *upstream) pop(now time.Time) *upstreamConn {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := len(u.idle) - 1
	if n < 0 || now.Sub(u.idle[n].since) > u.maxIdle {
		return nil
	}
	c := u.idle[n]
	u.idle[n] = nil
	u.idle = u.idle[:n]
	return c
}

// dial opens a fresh connection. Its errors are dialErrors, or ctx's.
func (u *upstream) dial(ctx context.Context) (*upstreamConn, error) {
	c, err := u.dialer.DialContext(ctx, "tcp", u.address)
	if err == nil && u.tls != nil {
		c, err = u.handshake(ctx, c)
	}
	if err != nil {
		return nil, &dialError{err}
	}
	conn := &upstreamConn{Conn: c, of: u, raw: rawConn(c)}
	u.hangups.add(c, &conn.peer)
	return conn, nil
}

func (u *upstream) handshake(ctx context.Context, c net.Conn) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, u.dialer.Timeout)
	defer cancel()
	t := tls.Client(c, u.tls)
	if err := t.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return t, nil
}

// put takes back a connection on which a whole exchange has passed.
func (u *upstream) put(c *upstreamConn, now time.Time) {
	c.since = now
	u.mu.Lock()
	if !u.closed {
		u.idle = append(u.idle, c)
		c = nil
	}
	u.mu.Unlock()
	if c != nil {
		_ = c.Close()
	}
}

// sweep closes the connections that have been idle for too long.
func (u *upstream) sweep(now time.Time) {
	u.mu.Lock()
	old := 0
	for old < len(u.idle) && now.Sub(u.idle[old].since) > u.maxIdle {
		old++
	}
	stale := append([]*upstreamConn(nil), u.idle[:old]...)
	u.idle = append(u.idle[:0], u.idle[old:]...)
	u.mu.Unlock()
	for _, c := range stale {
		_ = c.Close()
	}
}

// close closes all idle connections, and those that come back later.
func (u *upstream) close() {
	u.mu.Lock()
	idle := u.idle
	u.idle, u.closed = nil, true
	u.mu.Unlock()
	for _, c := range idle {
		_ = c.Close()
	}
}

// dialError marks a failure in which the replica has seen nothing of the
// request.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// Readers are pooled by size: a stream wants little memory for a long time, a
// whole answer wants few reads.
const (
	streamBuffer = 4 << 10
	answerBuffer = 32 << 10
)

var streamReaders, answerReaders sync.Pool

func acquireReader(c io.Reader, stream bool) *bufio.Reader {
	pool, size := &answerReaders, answerBuffer
	if stream {
		pool, size = &streamReaders, streamBuffer
	}
	if br, ok := pool.Get().(*bufio.Reader); ok {
		br.Reset(c)
		return br
	}
	return bufio.NewReaderSize(c, size)
}

// releaseReader takes back a reader; nothing that it returned may be used on.
func releaseReader(br *bufio.Reader) {
	br.Reset(nil)
	if br.Size() == streamBuffer {
		streamReaders.Put(br)
		return
	}
	answerReaders.Put(br)
}
