package front

import (
	"crypto/tls"
	"io"
	"net"
	"time"
)

const (
	mostRefusing = 128             // clients that are being told at one time; others are just cut
	refuseFor    = 2 * time.Second // for one of them to send its request and read why
	mostUnread   = 256 << 10       // bytes of its request that are thrown away
)

// refuse tells a client in HTTP why its connection is one too many, and closes
// it. It does not wait: when many are being told already, this one is cut.
func (l *Listener) refuse(c *net.TCPConn, why Reason) {
	l.refused(why)
	select {
	case l.refusing <- struct{}{}:
		go func() {
			l.tell(c, l.options.Answer(why))
			<-l.refusing
		}()
	default:
		_ = c.Close()
	}
}

// tell answers once something of a request is there: clients take what comes
// unasked for a fault.
func (l *Listener) tell(tcp *net.TCPConn, answer []byte) {
	defer func() { _ = tcp.Close() }()
	_ = tcp.SetDeadline(time.Now().Add(refuseFor))
	c := net.Conn(tcp)
	if l.options.TLS != nil {
		c = tls.Server(c, l.options.TLS)
	}
	var some [1 << 10]byte
	if _, err := c.Read(some[:]); err != nil {
		return
	}
	if _, err := c.Write(answer); err != nil {
		return
	}
	if t, ok := c.(*tls.Conn); ok {
		_ = t.CloseWrite()
	}
	// To close a socket with unread bytes in it would reset the connection, and
	// the answer would be lost on its way.
	_ = tcp.CloseWrite()
	_, _ = io.CopyN(io.Discard, tcp, mostUnread)
}
