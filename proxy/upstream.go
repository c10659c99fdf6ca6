package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"sync"
	"syscall"
	"time"
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

func acquireReader(c net.Conn, stream bool) *bufio.Reader {
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
