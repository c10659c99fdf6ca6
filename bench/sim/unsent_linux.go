package sim

import (
	"net"

	"golang.org/x/sys/unix"
)

// unsent returns the bytes in the send buffer that the peer has not
// acknowledged.
func unsent(c *net.TCPConn) (n int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		n, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	})
	return n
}
