package load

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"time"
)

// Codes under which outcomes are counted beside HTTP statuses.
const (
	codeOK         = "200"
	codeTimeout    = "timeout"
	codeConnect    = "connect"    // no connection
	codeCut        = "cut"        // the answer ended early
	codeMalformed  = "malformed"  // not HTTP
	codeMismatch   = "mismatch"   // not the bytes that the simulator sends
	codeIncomplete = "incomplete" // a stream that ended cleanly, but without [DONE]
)

// maxBatch is how many intervals a stream gathers before it takes the lock.
const maxBatch = 64

// exchange is one request with its answer. A worker uses one over and over.
type exchange struct {
	conn     *connection
	rec      *recorder
	answer   answer
	split    splitter
	match    matcher
	request  *Request
	intended time.Time
	sent     time.Time
	first    time.Time // first event with choices, or first byte of a whole answer
	previous time.Time // event with choices
	last     time.Time // byte

	itls       []time.Duration
	generation int
	all        []time.Duration // every interval, when details are wanted

	events, tokens             int
	promptTokens, answerTokens int
	code                       string
	done                       bool
	unfinished                 bool // stopped from our side
	redialled                  bool
	body                       []byte // of an answer that is no stream, up to a bound
}

// keptBody bounds what is kept of a body to find its usage or error, in bytes.
const keptBody = 64 << 10

func (x *exchange) reset(q *Request, intended time.Time) {
	*x = exchange{
		conn: x.conn, rec: x.rec, split: splitter{x.split.partial[:0]}, match: x.match,
		request: q, intended: intended, itls: x.itls[:0], body: x.body[:0],
	}
	x.match.reset(q.Expect)
	x.promptTokens = q.PromptTokens
}

// perform sends the request and reads the answer to its end. A connection that
// had been idle may be one that the server was just closing; the request then
// goes out again on a fresh one, once, as SDKs do.
func (x *exchange) perform(ctx context.Context, key string, timeout time.Duration) {
	err := x.attempt(ctx, key, timeout)
	if stale(err) && x.conn.used && x.first.IsZero() && x.answer.status == 0 && ctx.Err() == nil {
		x.conn.close(false)
		x.redialled = true
		err = x.attempt(ctx, key, timeout)
	}
	x.judge(ctx, err)
	if err != nil || !x.answer.reusable() {
		x.conn.close(x.unfinished)
	} else {
		x.conn.used = true
	}
}

func stale(err error) bool {
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, errHead)
}

func (x *exchange) attempt(ctx context.Context, key string, timeout time.Duration) error {
	x.answer = answer{c: x.conn}
	if err := x.conn.dial(ctx, timeout); err != nil {
		return &dialError{err}
	}
	stop := context.AfterFunc(ctx, x.conn.interrupt())
	defer stop()
	if x.sent.IsZero() {
		x.sent = time.Now()
	}
	if err := x.conn.socket.SetDeadline(x.sent.Add(timeout)); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := x.conn.send(x.request, key); err != nil {
		return err
	}
	if err := x.answer.readHead(); err != nil {
		return err
	}
	return x.readBody()
}

type dialError struct{ error }

// interrupt returns what ends a wait on the connection from another goroutine.
func (c *connection) interrupt() func() {
	socket := c.socket
	return func() { _ = socket.SetDeadline(time.Unix(1, 0)) }
}

func (x *exchange) readBody() error {
	for {
		p, err := x.answer.next()
		x.last = x.conn.at
		if err == io.EOF {
			x.flush()
			return nil
		}
		if err != nil {
			x.flush()
			return err
		}
		x.rec.live.bytes.Add(int64(len(p)))
		x.match.feed(p)
		if x.answer.stream {
			x.split.feed(p, x.event)
			continue
		}
		if x.first.IsZero() {
			x.first = x.last
		}
		if room := keptBody - len(x.body); room > 0 {
			x.body = append(x.body, p[:min(room, len(p))]...)
		}
	}
}

func (x *exchange) event(event []byte) {
	x.events++
	x.rec.live.events.Add(1)
	switch classify(event) {
	case token:
		x.token()
	case usage:
		x.promptTokens, x.answerTokens = readUsage(event)
	case failure:
		if x.code = errorCode(event); x.code == "" {
			x.code = "error"
		}
		x.code = "event:" + x.code
	case done:
		x.done = true
	}
}

// token times an event. A read that brings several events gives them all its
// own time: they did arrive together.
func (x *exchange) token() {
	x.tokens++
	x.rec.live.tokens.Add(1)
	now := x.conn.at
	if x.first.IsZero() {
		x.first, x.previous = now, now
		return
	}
	interval := now.Sub(x.previous)
	x.previous = now
	if len(x.itls) == 0 {
		x.generation = x.rec.currentGeneration()
	}
	if x.itls = append(x.itls, interval); len(x.itls) == maxBatch {
		x.flush()
	}
	if x.rec.detailed {
		x.all = append(x.all, interval)
	}
}

func (x *exchange) flush() {
	if len(x.itls) > 0 {
		x.rec.intervals(x.generation, x.itls)
		x.itls = x.itls[:0]
	}
}

// judge gives the exchange its code.
func (x *exchange) judge(ctx context.Context, err error) {
	if x.sent.IsZero() {
		x.sent = x.intended
	}
	switch {
	case err != nil && ctx.Err() != nil:
		x.unfinished = true
	case err != nil:
		x.code = codeOf(err)
	case x.answer.status != 200:
		x.code = strconv.Itoa(x.answer.status)
		if code := errorCode(x.body); code != "" && code != x.code {
			x.code += " " + code
		}
	case x.code != "": // an error event
	case !x.match.whole():
		x.code = codeMismatch
	case x.answer.stream && !x.done:
		x.code = codeIncomplete
	default:
		x.code = codeOK
		x.countTokens()
	}
}

// countTokens takes the answer's own figures, or else one token for each event
// but the first, which carries the role.
func (x *exchange) countTokens() {
	if !x.answer.stream {
		if prompt, completion := readUsage(x.body); prompt > 0 {
			x.promptTokens, x.answerTokens = prompt, completion
		}
	}
	if x.answerTokens == 0 {
		x.answerTokens = max(0, x.tokens-2) // the last carries the reason to finish
	}
}

func codeOf(err error) string {
	var dialling *dialError
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return codeTimeout
	case errors.As(err, &dialling):
		return codeConnect
	case errors.Is(err, errHead):
		return codeMalformed
	}
	return codeCut
}

// latencies count from the moment at which the request was meant to be sent.
func (x *exchange) latencies() (ttft, tpot, e2el time.Duration) {
	first := x.first
	if first.IsZero() { // a stream without choices, or an empty answer
		first = x.last
	}
	ttft, e2el = first.Sub(x.intended), x.last.Sub(x.intended)
	if x.answerTokens > 1 {
		tpot = (e2el - ttft) / time.Duration(x.answerTokens-1)
	}
	return ttft, tpot, e2el
}

// Detail is one request in a detailed result.
type Detail struct {
	Start, TTFT, Latency, Queue time.Duration
	ITL                         []time.Duration
	PromptTokens, AnswerTokens  int
	Error                       string // empty for a success
}

func (x *exchange) detail(began time.Time) Detail {
	ttft, _, e2el := x.latencies()
	d := Detail{
		Start: x.sent.Sub(began), TTFT: ttft, Latency: e2el, Queue: x.sent.Sub(x.intended),
		ITL: x.all, PromptTokens: x.promptTokens, AnswerTokens: x.answerTokens,
	}
	if x.code != codeOK {
		d.Error, d.TTFT, d.Latency = x.code, 0, 0
	}
	return d
}
