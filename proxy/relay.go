package proxy

import (
	"errors"
	"io"
	"strconv"
	"sync"
	"time"
)

// errorEvent ends a stream that was cut, where the last byte sent ended an
// event. OpenAI's SDKs raise an error for it.
func errorEvent(r *refusal) []byte {
	return append(append([]byte("data: "), errorBody(r)...), "\n\n"...)
}

var (
	replicaCutEvent = errorEvent(&refusal{kind: serverError, code: "replica_failed",
		message: "The replica failed in the middle of the answer. What came before is all there is."})
	drainCutEvent = errorEvent(&refusal{kind: serverError, code: "shutting_down",
		message: "The gateway is stopping and could not wait any longer for the end of this answer."})
	stalledEvent = errorEvent(&refusal{kind: serverError, code: "replica_timeout",
		message: "The replica stopped in the middle of the answer. What came before is all there is."})
)

// relayWhole answers with a body that has been read to its end.
func (x *exchange) relayWhole() error {
	first := x.answer.first
	x.bytesSent = int64(len(first))
	x.ctx.Response.SetBody(first)
	return nil
}

// relayStream is the body stream of an answer that is relayed as it comes.
// fasthttp calls WriteTo, then Close, on the goroutine that serves the client.
type relayStream exchange

// SupportsBodyWriteTo implements fasthttp.BodyWriterTo: it makes fasthttp give
// each Write a chunk and a flush of its own.
func (s *relayStream) SupportsBodyWriteTo() bool { return true }

// WriteTo relays the answer. Every slice that a read from the replica brought
// in becomes one Write. Its error makes fasthttp close the connection without
// the terminating chunk.
func (s *relayStream) WriteTo(w io.Writer) (n int64, err error) {
	x := (*exchange)(s)
	defer func() {
		if v := recover(); v != nil {
			x.panicked(v)
			err = refuseInternal
		}
		if err != nil && x.unframed {
			x.ctx.Conn().(*gate).reset = true
		}
	}()
	err = x.relayTo(w)
	return x.bytesSent, err
}

var errReadStream = errors.New("the answer is relayed by WriteTo alone")

// Read implements io.Reader, which a body stream must be; fasthttp prefers
// WriteTo.
func (s *relayStream) Read([]byte) (int, error) { return 0, errReadStream }

// Close ends the exchange.
func (s *relayStream) Close() error {
	(*exchange)(s).close()
	return nil
}

func (x *exchange) relayTo(w io.Writer) error {
	now := time.Now()
	client := clientWriter{x: x, w: w, armed: now} // the server has just set the write deadline
	if x.unframed {
		client.takeOver()
	}
	if x.answer.stream {
		return x.relayEvents(&client, now)
	}
	x.tail = new(tail)
	p, err := x.answer.first, error(nil)
	for err == nil {
		x.tail.keep(p)
		if err := client.write(p, now); err != nil {
			return err
		}
		x.armIdle(time.Now()) // not before: the client's time is not the replica's
		p, err = x.answer.body.next()
		now = time.Now()
	}
	if err == io.EOF {
		return nil
	}
	return x.cutOff(&client, err)
}

// relayEvents relays a stream. What came with its beginning is still in the
// reader; the rest is taken from the connection itself, so that no buffer is
// held between two events.
func (x *exchange) relayEvents(client *clientWriter, now time.Time) error {
	a := &x.answer
	failed := client.write(a.first, now)
	pass := func(p []byte) (more bool) {
		if len(p) > 0 && failed == nil {
			x.sse.feed(p)
			failed = client.write(p, now)
		}
		return failed == nil && a.body.err == nil
	}
	more := pass(a.body.take())
	a.body.release()
	releaseReader(a.br)
	a.br, a.first = nil, nil
	if more {
		x.armIdle(time.Now())
		err := a.conn.receive(func(view []byte) bool {
			last, before := now, x.sse.deltas
			now = time.Now()
			more := pass(a.body.feed(view))
			x.armIdle(time.Now())
			if x.sse.deltas > before && x.table.config.Metrics.Requests {
				x.model.metrics.interToken.Observe(now.Sub(last).Seconds())
			}
			return more
		})
		if err != nil {
			a.body.fail(err)
		}
	}
	switch {
	case failed != nil:
		return failed
	case a.body.err == io.EOF:
		return nil
	}
	return x.cutOff(client, a.body.err)
}

// clientWriter writes the parts of an answer to the client. The first part goes
// out with the header, through fasthttp. The others of a stream are framed here
// and go straight to the connection, each in one write; the server's own buffer
// is empty then, and it still writes the last chunk.
type clientWriter struct {
	x      *exchange
	w      io.Writer // fasthttp's
	direct bool
	head   []byte    // of an unframed answer, until it has gone out
	armed  time.Time // when the write deadline was last moved
}

// unframe makes the answer one that a client of HTTP/1.0 can read, which knows
// no chunks: it ends with the connection. fasthttp knows no such answer, so
// nothing that it writes gets out any more. A cut resets the connection, or it
// would look like the end.
func (x *exchange) unframe() {
	x.unframed = true
	x.ctx.Response.Header.SetConnectionClose()
	x.ctx.Conn().(*gate).muted = true
}

// takeOver prepares an unframed answer's header, which fasthttp has written to
// nowhere.
func (c *clientWriter) takeOver() {
	header := &c.x.ctx.Response.Header
	header.Del("Transfer-Encoding")
	c.head = header.Header()
}

// write sends p, which the client must take within the write time-out. Like the
// idle time-out, its deadline is moved only now and then.
func (c *clientWriter) write(p []byte, now time.Time) error {
	if len(p) == 0 {
		return nil
	}
	x := c.x
	if limit := x.table.config.Timeouts.Write; now.Sub(c.armed) > limit/8 {
		c.armed = now
		x.armWrite(now.Add(limit))
	}
	if err := c.send(p); err != nil {
		x.leave(errClientLeft)
		x.cut = x.cancelled()
		return err
	}
	x.bytesSent += int64(len(p))
	return nil
}

func (c *clientWriter) send(p []byte) error {
	if c.x.unframed {
		_, err := c.x.ctx.Conn().(*gate).Conn.Write(append(c.head, p...))
		c.head = nil
		return err
	}
	if !c.direct {
		c.direct = c.x.answer.stream
		_, err := c.w.Write(p)
		if buffered, ok := c.w.(interface{ Flush() error }); ok && err == nil {
			err = buffered.Flush() // an answer of known length is not written out by itself
		}
		return err
	}
	box := frames.Get().(*[]byte)
	b := strconv.AppendInt((*box)[:0], int64(len(p)), 16)
	b = append(append(append(b, "\r\n"...), p...), "\r\n"...)
	_, err := c.x.ctx.Conn().Write(b)
	*box = b
	frames.Put(box)
	return err
}

// frames are buffers for framed parts, which streamBuffer bounds.
var frames = sync.Pool{New: func() any { return new(make([]byte, 0, 512)) }}

// armIdle moves the deadline only now and then: it is a timer of the runtime's,
// and an event every few milliseconds need not pay for one each.
func (x *exchange) armIdle(now time.Time) {
	limit := x.table.config.Timeouts.Idle
	if now.Sub(x.answer.armed) > limit/8 {
		x.answer.armed = now
		_ = x.answer.conn.SetReadDeadline(now.Add(limit))
	}
}

// cutOff ends an answer that will not be whole. Where the client stands
// between two events it is told why.
func (x *exchange) cutOff(client *clientWriter, err error) error {
	err = x.orGone(err)
	if x.sse.done { // the client has all there is, and may have left with it
		return err
	}
	x.cut = err
	event := replicaCutEvent
	switch {
	case x.cut == errClientLeft:
		return x.cut
	case x.cut == errDraining:
		event = drainCutEvent
	case isTimeout(x.cut):
		event = stalledEvent
	}
	if x.answer.stream && x.sse.boundary {
		_ = x.ctx.Conn().SetWriteDeadline(time.Now().Add(time.Second))
		_ = client.send(event)
	}
	return x.cut
}
