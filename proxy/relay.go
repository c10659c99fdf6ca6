package proxy

import (
	"errors"
	"io"
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
	p := x.answer.first
	if !x.answer.stream {
		x.tail = new(tail)
		x.tail.keep(p)
	}
	armed := time.Now() // the server has just set the client's write deadline
	for {
		if len(p) > 0 {
			if err := x.writeOn(w, p, &armed); err != nil {
				return err
			}
		}
		var err error
		if p, err = x.nextPart(); err == io.EOF {
			return nil
		} else if err != nil {
			return x.cutOff(w, err)
		}
	}
}

// writeOn writes p to the client, which must take it within the write time-out.
func (x *exchange) writeOn(w io.Writer, p []byte, armed *time.Time) error {
	limit := x.table.config.Timeouts.Write
	if now := time.Now(); now.Sub(*armed) > limit/8 {
		*armed = now
		_ = x.ctx.Conn().SetWriteDeadline(now.Add(limit))
	}
	n, err := w.Write(p)
	x.bytesSent += int64(n)
	if err != nil {
		x.leave(errClientLeft)
		x.cut = x.cancelled()
	}
	return err
}

// nextPart waits for the next part of the answer, at most the idle time-out.
// The deadline is moved only now and then: it is a timer of the runtime's, and
// an event every few milliseconds need not pay for one each.
func (x *exchange) nextPart() ([]byte, error) {
	a := &x.answer
	if a.stream && a.br.Buffered() == 0 {
		x.armIdle()
	}
	p, err := a.body.next()
	if err != nil {
		return nil, err
	}
	if a.stream {
		x.sse.feed(p)
	} else {
		x.tail.keep(p)
	}
	return p, nil
}

func (x *exchange) armIdle() {
	limit := x.table.config.Timeouts.Idle
	now := time.Now()
	if now.Sub(x.answer.armed) > limit/8 {
		x.answer.armed = now
		_ = x.answer.conn.SetReadDeadline(now.Add(limit))
	}
}

// cutOff ends an answer that will not be whole. Where the client stands
// between two events it is told why.
func (x *exchange) cutOff(w io.Writer, err error) error {
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
		_, _ = w.Write(event)
	}
	return x.cut
}
