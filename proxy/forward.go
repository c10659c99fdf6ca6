package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"mete/balancer"
	"mete/config"
	"mete/proxy/body"
)

// maxHeld bounds the beginning of a stream that is held until its first event
// is known not to be an error, and the body of an answer that is no success,
// in bytes.
const maxHeld = 64 << 10

// wholeAnswer is the size in bytes up to which an answer that is not streamed
// is read whole before the client gets its header, so that a cut one can still
// be answered by another replica.
const wholeAnswer = 64 << 10

// answer is a replica's answer while it is being read.
type answer struct {
	conn   *upstreamConn // nil when none is open
	br     *bufio.Reader
	head   *fasthttp.ResponseHeader // nil before it was read, and once a stream is relayed
	body   framedBody
	status int
	length int64 // of the body, -1 when chunked
	stream bool  // server-sent events
	whole  bool  // the body is all in held
	close  bool  // the replica will close the connection
	held   []byte
	first  []byte    // what is relayed first: held, or a view of br's buffer
	armed  time.Time // when the limit on standing still was last set
}

func newUpstream(r *balancer.Replica, t *config.Timeouts, h *hangups) *upstream {
	u := &upstream{
		address: r.ID,
		host:    r.Host,
		dialer:  net.Dialer{Timeout: t.Connect},
		hangups: h,
		tls:     r.TLSConfig(),
		maxIdle: t.ReplicaKeepAlive,
	}
	return u
}

// roundTrip sends the request and reads the answer's header. A connection that
// was used before may be one that the replica is just closing: when it fails
// before any byte of an answer, the request goes out once more on a fresh one.
func (x *exchange) roundTrip() error {
	u := x.g.upstreamOf(x.lease.Replica())
	conn := u.take(time.Now())
	if conn != nil {
		err := x.exchangeOn(u, conn)
		if failed := (*upstreamError)(nil); !errors.As(err, &failed) || !failed.quiet || isTimeout(err) {
			return err
		}
		x.reached = false // it had gone before the request came
		x.model.pool.metrics.resends.Inc()
	}
	began := time.Now()
	conn, err := u.dial(x.life)
	x.stages.connect.ended(x, began)
	x.tries[x.attempts-1].connect.ended(x, began)
	if err != nil {
		return x.orGone(err)
	}
	return x.exchangeOn(u, conn)
}

// exchangeOn sends the request on conn and reads the answer's header. On an
// error conn is closed.
func (x *exchange) exchangeOn(u *upstream, conn *upstreamConn) error {
	if gone := x.attach(conn); gone != nil {
		_ = conn.Close()
		return gone
	}
	x.answer.conn = conn
	err := x.send(u, conn)
	if err == nil {
		x.reached = true
		x.stages.sent = time.Since(x.began)
		err = x.readHeader(conn)
	} else if x.answeredEarly(conn, err) {
		x.reached, err = true, nil
	}
	if err != nil {
		x.dropAnswer()
		return x.orGone(err)
	}
	return nil
}

// answeredEarly reports whether the replica has answered without reading all of
// the request, as servers do that refuse its size. The answer counts then, and
// not that the request could not be sent to its end.
func (x *exchange) answeredEarly(conn *upstreamConn, sending error) bool {
	if isTimeout(sending) || conn.SetReadDeadline(time.Now().Add(earlyAnswer)) != nil || x.readHeader(conn) != nil {
		return false
	}
	x.answer.close = true
	return true
}

// earlyAnswer is how long the header of an early answer is waited for: it came
// before the connection broke.
const earlyAnswer = 100 * time.Millisecond

// send writes the request: a head that is built here, and the body as it came
// but for what the model's configuration splices in.
func (x *exchange) send(u *upstream, conn *upstreamConn) error {
	limit := x.table.config.Timeouts.Total
	if x.stream {
		limit = x.model.firstByte
	}
	x.sends++
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return &upstreamError{doing: "arm time-out", err: err, quiet: true}
	}
	out := acquireOutgoing()
	defer out.release()
	out.segments = x.scan.Splice(out.segments, x.model.upstream, x.model.members)
	out.head = x.appendHead(out.head, u, body.Len(out.segments))
	if err := out.writeTo(conn.Conn); err != nil {
		return &upstreamError{doing: "send request", err: err, quiet: true}
	}
	return nil
}

// appendHead builds the request's head. Of the client's header fields only
// those named here reach a replica.
func (x *exchange) appendHead(dst []byte, u *upstream, length int) []byte {
	dst = append(dst, "POST "...)
	dst = append(dst, x.ctx.Request.URI().PathOriginal()...) // one of the paths in endpoints
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(dst, u.host...)
	dst = append(dst, "\r\nContent-Type: application/json\r\nContent-Length: "...)
	dst = strconv.AppendInt(dst, int64(length), 10)
	dst = append(dst, "\r\nX-Request-Id: "...)
	dst = x.appendAttemptID(dst)
	dst = append(dst, "\r\nEndpoint-Load-Metrics-Format: TEXT\r\n"...) // the replica may answer with its load
	dst = append(dst, x.model.pool.authorization...)
	return append(x.appendTrace(dst), "\r\n"...)
}

// appendTrace builds the trace context anew from what was read of the caller's.
func (x *exchange) appendTrace(dst []byte) []byte {
	if !x.trace.Known() {
		return dst
	}
	dst = append(dst, "traceparent: "...)
	dst = x.trace.AppendHeader(dst, x.tries[x.attempts-1].id)
	dst = append(dst, "\r\n"...)
	if x.trace.Given {
		dst = appendField(dst, "tracestate: ", x.head.tracestate)
	}
	return dst
}

func appendField(dst []byte, name string, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	dst = append(dst, name...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// readHeader reads the answer's header and sees how its body is framed.
func (x *exchange) readHeader(conn *upstreamConn) error {
	a := &x.answer
	if a.br == nil {
		a.br = acquireReader(conn.Conn, x.stream)
	}
	if _, err := a.br.Peek(1); err != nil {
		return &upstreamError{doing: "wait for answer", err: err, quiet: true}
	}
	if a.head == nil {
		a.head = heads.Get().(*fasthttp.ResponseHeader)
	}
	for {
		err := a.head.Read(a.br)
		if errors.As(err, new(*fasthttp.ErrSmallBuffer)) && a.br.Size() < answerBuffer {
			a.widen(conn)
			continue
		}
		if err != nil {
			return &upstreamError{doing: "read answer's header", err: plainHeaderError(err)}
		}
		if a.status = a.head.StatusCode(); a.status >= 200 {
			break
		}
	}
	if load := a.head.Peek("Endpoint-Load-Metrics"); len(load) > 0 {
		x.lease.Replica().ObserveORCA(load)
	}
	a.close = a.head.ConnectionClose()
	a.stream = bytes.HasPrefix(a.head.ContentType(), []byte("text/event-stream"))
	switch a.length = int64(a.head.ContentLength()); {
	case a.length >= 0:
		a.body.resetLength(a.br, a.length)
	case a.length == -1:
		a.body.resetChunked(a.br)
	default:
		// Only the connection's end would tell where the answer ends, and that
		// is also how a cut one looks.
		return &upstreamError{doing: "read answer's header", err: errNoLength}
	}
	return nil
}

// widen goes on reading with a larger buffer, where the header of a stream does
// not fit into a stream's.
func (a *answer) widen(conn net.Conn) {
	narrow := a.br
	begun, _ := narrow.Peek(narrow.Buffered())
	a.br = acquireReader(io.MultiReader(bytes.NewReader(bytes.Clone(begun)), conn), false)
	releaseReader(narrow)
}

// plainHeaderError keeps what the replica has sent out of an error: fasthttp
// quotes it, and after a mix-up it may be anything.
func plainHeaderError(err error) error {
	if isTimeout(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(*net.OpError)) {
		return err
	}
	return errBadHeader
}

var errBadHeader = errors.New("it is not valid HTTP")

var errNoLength = errors.New("the answer has neither a length nor chunks")

// admitAnswer reads as much of the answer as must be known before the client
// gets its header: all of a short one, the first event of a stream.
func (x *exchange) admitAnswer() error {
	a := &x.answer
	if a.status != fasthttp.StatusOK {
		return x.readFailure()
	}
	var err error
	if a.stream {
		err = x.holdFirstEvent()
	} else {
		err = x.holdWhole()
	}
	if err != nil {
		x.dropAnswer()
		return x.orGone(err)
	}
	x.stages.firstByte = time.Since(x.began)
	x.awaited()
	return nil
}

// holdFirstEvent waits for the stream's first event, so that an error there can
// still be answered by another replica; of a long event only for as much as
// tells that it is none. Usually one read is enough, and nothing is copied.
func (x *exchange) holdFirstEvent() error {
	a := &x.answer
	x.sse.reset(x.scan.IncludeUsage || x.endpoint.kind == body.Other)
	for {
		p, err := a.body.next()
		if err == io.EOF && len(a.held) > 0 {
			a.first = a.held
			return x.firstFailure()
		}
		if err == io.EOF {
			err = errEmptyStream
		}
		if err != nil {
			return &upstreamError{doing: "wait for first event", err: err}
		}
		x.sse.feed(p)
		if len(a.held) > 0 {
			a.held = append(a.held, p...)
			p = a.held
		}
		a.first = p
		if x.sse.events > 0 || len(p) >= streamBuffer && x.sse.judged() || len(p) > maxHeld {
			return x.firstFailure()
		}
		if len(a.held) == 0 {
			a.held = append(a.held, p...)
		}
	}
}

var errEmptyStream = errors.New("the stream ended before its first event")

// errAborted says that the replica gave up a request which nobody asked it to,
// as vLLM does to all that run when it is told to stop.
var errAborted = errors.New("the replica aborted the request")

// firstFailure makes a failed attempt of a stream that begins with an error.
func (x *exchange) firstFailure() error {
	switch {
	case x.sse.failedFirst:
		return newReplicaError(0, x.sse.failure)
	case x.sse.aborted:
		return &upstreamError{doing: "wait for first event", err: errAborted}
	}
	return nil
}

// holdWhole reads a short answer whole; a long one is relayed as it comes.
func (x *exchange) holdWhole() error {
	a := &x.answer
	if a.length > wholeAnswer {
		return nil
	}
	for {
		p, err := a.body.next()
		if err == io.EOF && bytes.Contains(a.held, abortMark) {
			err = errAborted
		}
		if err == io.EOF {
			a.whole, a.first = true, a.held
			return nil
		}
		if err != nil {
			return &upstreamError{doing: "read answer", err: err}
		}
		a.held = append(a.held, p...)
		if len(a.held) > wholeAnswer {
			a.first = a.held
			return nil
		}
	}
}

// readFailure reads the body of an answer that is no success.
func (x *exchange) readFailure() error {
	a := &x.answer
	for len(a.held) <= maxHeld {
		p, err := a.body.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			x.dropAnswer()
			return x.orGone(&upstreamError{doing: "read error", err: err})
		}
		a.held = append(a.held, p...)
	}
	failure := newReplicaError(a.status, a.held)
	x.dropAnswer()
	return x.orGone(failure)
}

// dropAnswer ends the upstream exchange: a connection that is whole goes back,
// any other is closed.
func (x *exchange) dropAnswer() {
	a := &x.answer
	if a.conn == nil {
		return
	}
	whole := x.detach()
	if whole && !a.close && a.body.clean() {
		a.conn.of.put(a.conn, time.Now())
	} else {
		_ = a.conn.Close()
	}
	if a.br != nil {
		releaseReader(a.br)
	}
	a.reset()
}

// reset forgets the answer, but keeps its memory for the next one.
func (a *answer) reset() {
	a.releaseHead()
	held := a.held[:0]
	if cap(held) > 2*maxHeld {
		held = nil
	}
	*a = answer{held: held}
}

func (a *answer) releaseHead() {
	if a.head != nil {
		a.head.Reset()
		heads.Put(a.head)
		a.head = nil
	}
}

var heads = sync.Pool{New: func() any { return new(fasthttp.ResponseHeader) }}

// orGone prefers the reason for which the exchange was cancelled to the error
// that came of it.
func (x *exchange) orGone(err error) error {
	if gone := x.cancelled(); gone != nil {
		return gone
	}
	return err
}
