package proxy

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// goneAfter is how long a peer may leave sent bytes or keep-alive probes
// unacknowledged: one that vanished without a FIN is noticed by then.
const goneAfter = 30 * time.Second

// tunedListener sets up each connection so that a peer which vanished is
// noticed. It hands out the connections themselves, not wrappers: the watcher
// must find their sockets.
type tunedListener struct{ net.Listener }

// Accept implements net.Listener.
func (l tunedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		tune(tcp)
	}
	return c, err
}

// tune is best effort: a connection that cannot be tuned still works.
func tune(c *net.TCPConn) {
	_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: goneAfter / 2, Interval: goneAfter / 6, Count: 3})
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(goneAfter.Milliseconds()))
	})
}
