package proxy

import (
	"io"
	"net"
)

// gatedListener puts a gate before every connection.
type gatedListener struct{ net.Listener }

// Accept implements net.Listener.
func (l gatedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &gate{Conn: c}, nil
}

// gate is a client's connection as fasthttp sees it. It lets in one request
// after the other, and of each only what a strict reading of RFC 9112 allows:
// every line has been looked at before fasthttp can take it for one.
//
// What a client has sent behind a request stays here until fasthttp asks for
// more. So no byte of the next request is ever taken for this one's body, and
// fasthttp, which writes answers out late while it has more to read, writes
// each out at once.
type gate struct {
	net.Conn
	message message
	begun   bool   // fasthttp has a part of the message
	refused error  // why nothing more comes
	held    []byte // read, and behind the message
	muted   bool   // what fasthttp writes is dropped
	reset   bool   // Close resets the connection
}

// NetConn is the connection below, without TLS.
func (g *gate) NetConn() net.Conn {
	if t, ok := g.Conn.(interface{ NetConn() net.Conn }); ok {
		return t.NetConn()
	}
	return g.Conn
}

// Read implements io.Reader: it returns bytes of one request only.
func (g *gate) Read(p []byte) (int, error) {
	for g.refused == nil {
		n, fresh, err := g.fetch(p)
		if n == 0 {
			return 0, g.message.ended(err)
		}
		skipped := g.message.skip(p[:n])
		own := 0
		if skipped < n {
			if own, err = g.message.take(p[skipped:n]); err != nil {
				return g.refuse(p, err)
			}
		}
		g.keep(p[skipped+own:n], fresh, skipped+own)
		if own > 0 {
			g.begun = !g.message.over()
			return copy(p, p[skipped:skipped+own]), nil
		}
	}
	return 0, g.refused
}

// fetch brings in bytes: those held back first, which keep will let go.
func (g *gate) fetch(p []byte) (n int, fresh bool, err error) {
	if len(g.held) > 0 {
		return copy(p, g.held), false, nil
	}
	n, err = g.Conn.Read(p)
	return n, true, err
}

// keep holds back rest, the end of what fetch brought in, of which used bytes
// are not needed any more.
func (g *gate) keep(rest []byte, fresh bool, used int) {
	switch {
	case !fresh:
		g.held = g.held[used:]
	case len(rest) > 0:
		g.held = append(g.held, rest...)
	}
	if len(g.held) == 0 {
		g.held = nil // who does not pipeline pays nothing
	}
}

// refuse ends the connection's input. fasthttp asks for the second byte of a
// request, and answers when it does not come, only once it has a first: one
// without any meaning stands in for it.
func (g *gate) refuse(p []byte, why error) (int, error) {
	g.refused, g.held = why, nil
	if g.begun {
		return 0, why
	}
	p[0] = '?'
	return 1, nil
}

// Write implements io.Writer, for fasthttp.
func (g *gate) Write(p []byte) (int, error) {
	if g.muted {
		return len(p), nil
	}
	return g.Conn.Write(p)
}

// Close implements io.Closer.
func (g *gate) Close() error {
	if g.reset {
		if tcp, ok := g.NetConn().(interface{ SetLinger(int) error }); ok && tcp.SetLinger(0) == nil {
			return g.NetConn().Close() // TLS would say goodbye first, as if all were well
		}
	}
	return g.Conn.Close()
}

// ended says what an error of a read means for the message: where it is not
// whole, an end of the connection is an early one.
func (m *message) ended(err error) error {
	if err == io.EOF && m.state >= requestLine {
		return io.ErrUnexpectedEOF
	}
	return err
}
