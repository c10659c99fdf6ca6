package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"sync"
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
	maxIdle time.Duration // below the replica's own idle time-out (uvicorn: 5 s)

	mu     sync.Mutex
	idle   []*upstreamConn // the last used at the end; taken from there
	closed bool
}

// upstreamConn is one connection to a replica, used by one exchange at a time.
type upstreamConn struct {
	net.Conn
	reused bool
	since  time.Time // idle since
}

// take returns the idle connection that was used last, nil if there is none
// which the replica can be trusted to hold open still.
func (u *upstream) take(now time.Time) *upstreamConn {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := len(u.idle) - 1
	if n < 0 || now.Sub(u.idle[n].since) > u.maxIdle {
		return nil
	}
	c := u.idle[n]
	u.idle[n] = nil
	u.idle = u.idle[:n]
	c.reused = true
	return c
}

// dial opens a fresh connection. A refused or timed-out connection is errDial.
func (u *upstream) dial(ctx context.Context) (*upstreamConn, error) {
	c, err := u.dialer.DialContext(ctx, "tcp", u.address)
	if err == nil && u.tls != nil {
		c, err = u.handshake(ctx, c)
	}
	if err != nil {
		return nil, &dialError{err}
	}
	return &upstreamConn{Conn: c}, nil
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
