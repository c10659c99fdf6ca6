package sim

import (
	"bufio"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// conn is one client connection. It has two goroutines: read parses a request,
// hands it to serve, and then waits on the socket, so that a client which
// leaves is seen in every phase. A pipelined byte hides a later FIN until its
// turn has come.
type conn struct {
	r    *Replica
	tcp  net.Conn
	br   *bufio.Reader
	req  Request
	x    exchange
	gone chan struct{} // closed when the client has left
	work chan error    // read to serve: a request is there, or what was wrong with it
	done chan bool     // serve to read: answered; true keeps the connection
	idle atomic.Bool   // no request in hand
}

func newConn(r *Replica, tcp net.Conn) *conn {
	c := &conn{
		r: r, tcp: tcp, br: bufio.NewReaderSize(tcp, 4<<10),
		gone: make(chan struct{}), work: make(chan error), done: make(chan bool, 1),
	}
	c.req.gone = c.gone
	c.x = exchange{r: r, cfg: &r.cfg, conn: tcp}
	c.idle.Store(true)
	return c
}

func (c *conn) read() {
	defer c.r.tasks.Done()
	defer close(c.work)
	for {
		if _, err := c.br.Peek(1); err != nil {
			return
		}
		err := c.readRequest()
		if err != nil && !errors.Is(err, errBadRequest) && !errors.Is(err, errTooLarge) {
			return
		}
		c.work <- err
		_, left := c.br.Peek(1)
		if left != nil {
			close(c.gone)
		}
		if keep := <-c.done; !keep || left != nil {
			return
		}
	}
}

func (c *conn) readRequest() error {
	c.idle.Store(false)
	if c.r.cfg.KeepAlive > 0 {
		_ = c.tcp.SetReadDeadline(time.Time{})
	}
	if err := c.req.readHead(c.br); err != nil {
		return err
	}
	return c.req.readBody(c.br, c.r.cfg.MaxBody, func() error {
		_, err := c.tcp.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
		return err
	})
}

func (c *conn) serve() {
	defer c.r.tasks.Done()
	defer c.r.remove(c)
	defer func() { _ = c.tcp.Close() }()
	for err := range c.work {
		c.x.reset(&c.req)
		switch {
		case errors.Is(err, errTooLarge):
			err = c.x.refuseUnread(413, "Request Entity Too Large")
		case err != nil:
			err = c.x.refuseUnread(400, "Invalid HTTP request received.")
		default:
			err = c.r.handle(&c.x)
		}
		keep := err == nil && c.x.keep && !c.r.isClosing()
		if keep {
			c.rest()
		} else {
			_ = c.tcp.Close()
		}
		c.done <- keep
	}
}

// rest starts the idle time of a connection whose request has been answered.
func (c *conn) rest() {
	c.idle.Store(true)
	if c.r.cfg.KeepAlive > 0 {
		_ = c.tcp.SetReadDeadline(time.Now().Add(c.r.cfg.KeepAlive))
	}
	if c.r.isClosing() { // Close may have looked at idle just before
		_ = c.tcp.Close()
	}
}

// stopIdle closes a connection that has no request in hand.
func (c *conn) stopIdle() {
	if c.idle.Load() {
		_ = c.tcp.Close()
	}
}

// refuseUnread answers what could not be read as a request and closes.
func (x *exchange) refuseUnread(status int, message string) error {
	x.keep = false
	return x.reply(status, "text/plain; charset=utf-8", []byte(message))
}

func (r *Replica) isClosing() bool {
	select {
	case <-r.closing:
		return true
	default:
		return false
	}
}
