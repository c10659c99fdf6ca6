package load

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// bufferSize holds the header of an answer and many events; thousands of
// connections have one each.
const bufferSize = 4 << 10

// maxHead bounds the header of an answer, in bytes.
const maxHead = 64 << 10

// connection is one connection to the server with what has been read from it.
// It is used by one goroutine.
type connection struct {
	target *Target
	socket net.Conn // nil when there is none
	buf    []byte
	r, w   int       // buf[r:w] has been read and not used
	at     time.Time // when the last read returned
	out    []byte
	used   bool // an answer has come over it
}

var errHead = errors.New("malformed answer")

// dial opens the connection if it is not open.
func (c *connection) dial(ctx context.Context, limit time.Duration) error {
	if c.socket != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	socket, err := new(net.Dialer).DialContext(ctx, "tcp", c.target.Address)
	if err != nil {
		return err
	}
	if c.target.TLS != nil {
		secured := tls.Client(socket, c.target.TLS)
		if err := secured.HandshakeContext(ctx); err != nil {
			return errors.Join(err, socket.Close())
		}
		socket = secured
	}
	if c.buf == nil {
		c.buf = make([]byte, bufferSize)
	}
	c.socket, c.r, c.w, c.used = socket, 0, 0, false
	return nil
}

// close gives the socket up. With reset the kernel forgets it at once, which
// keeps thousands of abandoned streams from filling the table of ports.
func (c *connection) close(reset bool) {
	if c.socket == nil {
		return
	}
	if tcp, ok := c.socket.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = c.socket.Close()
	c.socket = nil
}

// send writes the request in one write; a long body follows in one of its own.
func (c *connection) send(q *Request, key string) error {
	b := append(c.out[:0], q.prelude...)
	b = append(append(b, key...), q.middle...)
	rest := q.Body
	if len(rest) <= 16<<10 {
		b, rest = append(b, rest...), nil
	}
	c.out = b
	if _, err := c.socket.Write(b); err != nil {
		return err
	}
	if rest == nil {
		return nil
	}
	_, err := c.socket.Write(rest)
	return err
}

// fill reads more. The end of the connection is io.EOF.
func (c *connection) fill() error {
	if c.r == c.w {
		c.r, c.w = 0, 0
	} else if c.w == len(c.buf) {
		c.makeRoom()
	}
	n, err := c.socket.Read(c.buf[c.w:])
	c.at = time.Now()
	c.w += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

func (c *connection) makeRoom() {
	if c.r == 0 {
		c.buf = append(c.buf, make([]byte, len(c.buf))...)
		return
	}
	c.w = copy(c.buf, c.buf[c.r:c.w])
	c.r = 0
}

// line returns the next line without its end. It is valid until the next fill.
func (c *connection) line() ([]byte, error) {
	for from := 0; ; {
		if i := bytes.IndexByte(c.buf[c.r+from:c.w], '\n'); i >= 0 {
			line := c.buf[c.r : c.r+from+i]
			c.r += from + i + 1
			return bytes.TrimSuffix(line, []byte{'\r'}), nil
		}
		from = c.w - c.r
		if from > maxHead {
			return nil, fmt.Errorf("line of more than %d bytes: %w", maxHead, errHead)
		}
		if err := c.fill(); err != nil {
			return nil, unexpected(err)
		}
	}
}

// unexpected turns an end of the connection into what it is in the middle of an
// answer.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
