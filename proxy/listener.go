package proxy

import (
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"mete/config"
	"mete/proxy/front"
)

// goneAfter is how long a peer may leave sent bytes or keep-alive probes
// unacknowledged: one that vanished without a FIN is noticed by then.
const goneAfter = 30 * time.Second

// lingerFor is how long a connection whose request was refused unread is still
// read from after its answer.
const lingerFor = 2 * time.Second

// guard lets connections through that pass the bounds, each made ready for the
// server by wrap, which may be nil.
func (g *Gateway) guard(ln net.Listener, t *tls.Config, wrap func(*front.Conn) net.Conn) *front.Listener {
	protocol := g.table.Load().config.ProxyProtocol
	return front.New(ln, &g.addresses, front.Options{
		TLS: t, Wrap: wrap,
		Balancers: config.NewProxies(protocol.From), HeaderRequired: !protocol.Optional, HeaderTimeout: protocol.Timeout,
		Bounds: g.connectionBounds, Forwarders: g.forwards, Answer: g.turnAway,
		Refused: func(why front.Reason) { g.metrics.turnedAway.WithLabelValues(string(why)).Inc() },
	})
}

// client sets up a connection so that a peer which left or vanished is noticed.
func (g *Gateway) client(c *front.Conn) net.Conn {
	tune(c.TCPConn)
	client := &clientConn{Conn: c, hangups: g.hangups}
	g.hangups.add(c, &client.peer)
	return client
}

// clientConn is a client's connection.
type clientConn struct {
	*front.Conn
	peer    peer
	hangups *hangups // that watch peer
	linger  atomic.Bool
}

// clientOf finds the client's connection in c, nil where it is none of ours.
func clientOf(c net.Conn) *clientConn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	client, _ := c.(*clientConn)
	return client
}

// Close closes the connection. One that lingers first tells its peer the end,
// and reads on for a while: closing a socket with unread bytes in it resets the
// connection, and the answer would be lost on its way.
func (c *clientConn) Close() error {
	if c.linger.Load() && c.CloseWrite() == nil {
		_ = c.SetReadDeadline(time.Now().Add(lingerFor))
		_, _ = io.Copy(io.Discard, c.Conn)
	}
	c.hangups.forget(&c.peer)
	return c.Conn.Close()
}

// lingerOn lets a client read the answer to a request that was not read whole.
func lingerOn(c net.Conn) {
	if client := clientOf(c); client != nil {
		client.linger.Store(true)
	}
}

// mostUnsent is how many bytes the kernel takes for a client beyond those that
// are on their way to it. Left to itself it takes megabytes for each one that
// does not read, and as much is asked of a replica for nothing.
const mostUnsent = 64 << 10

// tune is best effort: a connection that cannot be tuned still works.
func tune(c *net.TCPConn) {
	_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: goneAfter / 2, Interval: goneAfter / 6, Count: 3})
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(goneAfter.Milliseconds()))
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, mostUnsent)
	})
}
