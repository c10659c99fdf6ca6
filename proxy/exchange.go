package proxy

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"mete/auth"
	"mete/balancer"
	"mete/limits"
	"mete/proxy/body"
	"mete/proxy/trace"
)

// exchange is one request with its answer. It is filled in on the way, and
// becomes one log line. Everything in it belongs to the goroutine that serves
// the client's connection, but for what mu guards.
type exchange struct {
	g     *Gateway
	ctx   *fasthttp.RequestCtx // valid until close
	table *table
	began time.Time
	id    limits.ID
	head  requestHead
	trace trace.Context

	endpoint *endpoint // nil for what is not inference
	model    *model
	body     buffer     // the request's body as it came
	scan     *body.Scan // nil before read, and once no replica will be sent the request
	grant    *limits.Grant
	lease    balancer.Lease
	peer     *peer  // the client, once it is watched
	left     func() // called when the client leaves; kept with the exchange, for the next one
	answer   answer
	sse      sseReader
	tail     *tail // the last bytes of a long answer that is not streamed

	prompt int64 // estimated, tokens
	most   int64 // tokens that the request asks for at most, -1 where it does not say
	stream bool  // what the request asks for

	rank    int        // how many exchanges there were when it began, with it
	counted netip.Addr // the client, where this request counts for its address

	record
	unseen   bool // a first look, which is not written down
	relaying bool // the body stream has taken over the duty to close
	unframed bool // the answer's end is the connection's

	life context.Context // ends when the client leaves or the gateway cuts
	end  context.CancelCauseFunc

	mu      sync.Mutex
	gone    error         // why the exchange was cancelled
	conn    *upstreamConn // to be closed when it is
	reading bool          // the request's body
}

// record is what is known of an exchange once it is over.
type record struct {
	status    int
	refusal   *refusal
	attempts  int
	sends     int // attempts, and repetitions on a fresh connection
	tries     [maxAttempts]try
	failure   error        // of the last attempt that failed
	caller    *auth.Caller // nil while it is not known whose key it is
	route     string       // which of the API's routes, "" for none
	awaiting  bool         // counted as a stream whose first token has not come
	streaming bool         // counted as an answer that is being relayed
	phase     phase
	cut       error // why the answer ended early
	replica   string
	stages    stages
	bytesSent int64
	used      usage
	reached   bool // a replica has been sent the request
}

// phase is how far an exchange has come.
type phase byte

const (
	phaseRequest phase = iota // reading and checking the request
	phaseQueue                // waiting for limits and for a replica
	phaseHeader               // waiting for the replica's header
	phaseFirst                // waiting for the first byte of the answer's body
	phaseAnswer               // relaying
	phases       = int(phaseAnswer) + 1
)

var phaseNames = [phases]string{"request", "queue", "header", "first_byte", "answer"}

func (p phase) String() string { return phaseNames[p] }

// stages are the times that the gateway itself spent, and the replica's time
// to the first byte.
type stages struct {
	auth, read, limit, queue, connect span
	sent, firstByte                   time.Duration // since the exchange began; 0: it did not come to that
}

// span is when a stage began, since the exchange did, and how long it took: of
// one that was gone through twice, the first time and the sum.
type span struct{ at, took time.Duration }

// ended notes that a stage which began at the given time has ended now.
func (s *span) ended(x *exchange, began time.Time) {
	if s.took == 0 {
		s.at = began.Sub(x.began)
	}
	s.took += time.Since(began)
}

// try is one attempt on a replica.
type try struct {
	replica *balancer.Replica
	outcome balancer.Outcome
	at, end time.Duration // since the exchange began
	connect span
	failure error
	id      trace.SpanID // under which the replica knows it, if it is traced
}

// The stages, as metrics, spans and the server-timing header name them.
const (
	stageAuth = iota
	stageRead
	stageLimit
	stageQueue
	stageConnect
	stageFirstByte
	stageAnswer
	stageCount
)

var stageNames = [stageCount]string{"auth", "read", "limit", "queue", "connect", "first_byte", "answer"}

var exchanges = sync.Pool{New: func() any {
	x := &exchange{}
	x.left = func() { x.leave(errClientLeft) }
	return x
}}

// open begins an exchange. It is closed by closeUnlessRelaying, or by the body
// stream once relaying has begun.
func (g *Gateway) open(ctx *fasthttp.RequestCtx) *exchange {
	x := exchanges.Get().(*exchange)
	x.g, x.ctx, x.table = g, ctx, g.table.Load()
	x.began = time.Now()
	x.id = g.ids.next()
	x.life, x.end = context.WithCancelCause(context.Background())
	g.enter(x)
	x.refusal = x.head.read(&ctx.Request.Header)
	if g.tracer != nil || x.head.traceparent != nil {
		x.trace = g.tracer.Begin(x.head.traceparent)
	}
	return x
}

// closeUnlessRelaying is deferred by the handler: it ends the exchange on every
// path but the one on which the body stream will.
func (x *exchange) closeUnlessRelaying() {
	if v := recover(); v != nil {
		x.panicked(v)
	}
	if !x.relaying {
		x.close()
	}
}

// Panicked counts and logs a panic that cost one request, whose id or path is
// given. It must be called while the panic is recovered from.
func (g *Gateway) Panicked(request string, v any) {
	g.metrics.panics.Inc()
	g.log.Error().Str("id", request).Interface("panic", v).Bytes("stack", debug.Stack()).Msg("panic")
}

// panicked turns a panic into a 500 for this one exchange.
func (x *exchange) panicked(v any) {
	x.g.Panicked(hex.EncodeToString(x.id[:]), v)
	x.relaying = false
	x.cut = refuseInternal
	if x.ctx.Response.IsBodyStream() {
		return // relaying: the answer is cut
	}
	x.refuse(refuseInternal)
}

// close settles the exchange. It is called exactly once.
func (x *exchange) close() {
	x.peer.unwatch()
	x.settle()
	x.dropAnswer()
	x.g.addresses.Release(x.counted)
	x.g.exit(x)
	x.end(nil)
	x.releaseBody()
	x.answer.reset()
	x.sse.reset(false)
	*x = exchange{sse: x.sse, answer: x.answer, left: x.left}
	exchanges.Put(x)
}

// leave cancels the exchange. It may be called from any goroutine, until close.
func (x *exchange) leave(cause error) {
	x.mu.Lock()
	if x.gone == nil {
		x.gone = cause
		if x.conn != nil {
			x.conn.abort()
		}
		switch cause {
		case errDraining:
			x.hurryClient()
		case errClientLeft: // a write that waits for it would hold the replica's connection open
			_ = x.ctx.Conn().SetWriteDeadline(longAgo)
		}
	}
	x.mu.Unlock()
	x.end(cause)
}

// hurryClient wakes an exchange that waits for its client, when the gateway
// must not wait any longer.
func (x *exchange) hurryClient() {
	_ = x.ctx.Conn().SetWriteDeadline(time.Now().Add(time.Second))
	if x.reading {
		_ = x.ctx.Conn().SetReadDeadline(longAgo)
	}
}

// armWrite sets how long the client may take, unless leave has set it for good.
func (x *exchange) armWrite(limit time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.gone == nil {
		_ = x.ctx.Conn().SetWriteDeadline(limit)
	}
}

// setReading notes whether the request's body is being read. It returns the
// reason if the exchange is cancelled already.
func (x *exchange) setReading(reading bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reading = reading
	return x.gone
}

// attach makes c the connection that is ended when the exchange is cancelled.
// It returns the cause if it already is; c then is the caller's to close.
func (x *exchange) attach(c *upstreamConn) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.gone == nil {
		x.conn = c
	}
	return x.gone
}

// detach ends what attach began and reports whether the connection is whole.
func (x *exchange) detach() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.conn = nil
	return x.gone == nil
}

// cancelled returns why the exchange was cancelled, nil if it was not.
func (x *exchange) cancelled() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.gone
}

// idSource makes ids: random per process, counted within it. The last byte is
// left free for the number of the attempt.
type idSource struct {
	prefix [7]byte
	count  atomic.Uint64
}

func newIDSource() *idSource {
	s := &idSource{}
	_, _ = rand.Read(s.prefix[:]) // crypto/rand never fails
	return s
}

func (s *idSource) next() (id limits.ID) {
	copy(id[:], s.prefix[:])
	binary.BigEndian.PutUint64(id[7:], s.count.Add(1))
	return id
}

// appendAttemptID appends the id that one attempt is sent under. vLLM wants it
// unique: a duplicate in flight was an error before 2025-12.
func (x *exchange) appendAttemptID(dst []byte) []byte {
	id := x.id
	id[15] = byte(x.sends)
	return hex.AppendEncode(dst, id[:])
}
