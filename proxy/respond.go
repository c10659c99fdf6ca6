package proxy

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"mete/limits"
)

// refuse answers with an error of the gateway's, or with a replica's own.
func (x *exchange) refuse(err error) {
	r := refusalFor(err)
	x.refusal, x.status = r, r.status
	response := &x.ctx.Response
	response.SetStatusCode(r.status)
	response.Header.SetContentType("application/json")
	var answered *replicaError
	if errors.As(err, &answered) && answered.relayable() {
		response.SetBodyRaw(answered.nested)
	} else {
		response.SetBody(errorBody(r))
	}
	x.refusalHeader(r)
	var exceeded *limits.Exceeded
	if errors.As(err, &exceeded) {
		x.limitHeader(exceeded.Requests, exceeded.Tokens)
	}
	x.commonHeader()
}

// refusalHeader helps the retry logic of OpenAI's SDKs.
func (x *exchange) refusalHeader(r *refusal) {
	header := &x.ctx.Response.Header
	if r.retryAfter > 0 {
		header.Set("retry-after", strconv.FormatInt(int64(math.Ceil(r.retryAfter.Seconds())), 10))
		header.Set("retry-after-ms", strconv.FormatInt(ceilMillis(r.retryAfter), 10))
	}
	if r.final || x.attempts >= maxAttempts && r.fault == faultReplica && r != refuseBusy {
		header.Set("x-should-retry", "false")
	}
}

func ceilMillis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// errorBody is OpenAI's error object.
func errorBody(r *refusal) []byte {
	type object struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	}
	e := object{Message: r.message, Type: r.kind, Code: r.code}
	if r.param != "" {
		e.Param = &r.param
	}
	b, _ := json.Marshal(map[string]object{"error": e}) // strings always marshal
	return b
}

// writeHead writes the header of a successful answer.
func (x *exchange) writeHead() {
	x.status = x.answer.status
	x.replica = x.lease.Replica().ID
	response := &x.ctx.Response
	response.SetStatusCode(x.status)
	response.Header.SetContentTypeBytes(x.answer.head.ContentType())
	if x.table.config.Answer.ReplicaHeader {
		response.Header.Set("x-mete-replica", x.replica)
		if x.attempts > 1 {
			response.Header.Set("x-mete-attempts", strconv.Itoa(x.attempts))
		}
	}
	if x.table.config.Answer.ServerTiming {
		var b [160]byte
		response.Header.SetCanonical(timingHeader, x.stages.append(b[:0]))
	}
	x.limitHeader(x.grant.Requests, x.grant.Tokens)
	x.commonHeader()
}

var (
	idHeader     = []byte("x-request-id")
	timingHeader = []byte("server-timing")
)

// limitHeader tells what is left of the tightest limits, in OpenAI's words.
func (x *exchange) limitHeader(requests, tokens limits.State) {
	x.limitFields(&requests, &requestFields)
	x.limitFields(&tokens, &tokenFields)
}

// limitNames are the names of the three fields of one kind of limit.
type limitNames struct{ limit, remaining, reset []byte }

var (
	requestFields = limitNames{[]byte("x-ratelimit-limit-requests"), []byte("x-ratelimit-remaining-requests"), []byte("x-ratelimit-reset-requests")}
	tokenFields   = limitNames{[]byte("x-ratelimit-limit-tokens"), []byte("x-ratelimit-remaining-tokens"), []byte("x-ratelimit-reset-tokens")}
)

func (x *exchange) limitFields(s *limits.State, names *limitNames) {
	if s.Limit == 0 {
		return
	}
	header := &x.ctx.Response.Header
	var b [24]byte
	header.SetCanonical(names.limit, strconv.AppendInt(b[:0], s.Limit, 10))
	header.SetCanonical(names.remaining, strconv.AppendInt(b[:0], s.Remaining, 10))
	header.SetCanonical(names.reset, append(b[:0], s.Reset.Round(time.Millisecond).String()...))
}

// commonHeader is on every answer. The client's own id is preferred, because
// the client looks for it; the log has both.
func (x *exchange) commonHeader() {
	header := &x.ctx.Response.Header
	id := x.head.clientID
	if id == nil {
		var b [2 * len(limits.ID{})]byte
		id = hex.AppendEncode(b[:0], x.id[:])
	}
	header.SetCanonical(idHeader, id)
	unread := x.unread()
	if unread {
		lingerOn(x.ctx.Conn())
	}
	if unread || x.head.closes || x.g.retired.Load() {
		header.SetConnectionClose()
	}
}

// append writes the stages as a Server-Timing value (W3C), in milliseconds.
func (s *stages) append(b []byte) []byte {
	b = appendStage(b, "auth", s.auth.took)
	b = appendStage(b, ", limit", s.limit.took)
	b = appendStage(b, ", queue", s.queue.took)
	b = appendStage(b, ", connect", s.connect.took)
	return appendStage(b, ", first_byte", s.firstByte)
}

func appendStage(b []byte, name string, d time.Duration) []byte {
	b = append(b, name...)
	b = append(b, ";dur="...)
	us := d.Microseconds()
	b = strconv.AppendInt(b, us/1000, 10)
	return append(b, '.', '0'+byte(us/100%10), '0'+byte(us/10%10), '0'+byte(us%10))
}

// expect decides on a request that waits for 100 Continue before it sends its
// body: what can be refused from the header alone is refused here.
func (g *Gateway) expect(ctx *fasthttp.RequestCtx) (status int) {
	defer func() { status = cmp.Or(status, fasthttp.StatusInternalServerError) }() // 0 after a panic
	x := g.open(ctx)
	defer x.closeUnlessRelaying()
	err := x.expectBody()
	if err == nil {
		x.unseen = true // the handler will see it again
		return fasthttp.StatusContinue
	}
	x.refuse(err)
	lingerOn(ctx.Conn()) // the body may be on its way all the same
	return x.status
}

func (x *exchange) expectBody() error {
	x.endpoint = endpoints[string(x.ctx.Request.URI().PathOriginal())]
	if x.refusal != nil {
		return x.refusal
	}
	if x.endpoint == nil {
		return nil
	}
	if x.rank > x.table.bounds.requests {
		return refuseOverload
	}
	if err := x.identify(); err != nil {
		return err
	}
	if err := x.checkContent(); err != nil {
		return err
	}
	return x.orGone(x.g.limiter.Check(x.life, x.head.key))
}

// refuseUnreadable answers a request that fasthttp could not parse. The error
// quotes what the client sent, so it is not logged.
func (g *Gateway) refuseUnreadable(ctx *fasthttp.RequestCtx, err error) {
	r := callerRefusal(400, "malformed_request", "", "The request is not valid HTTP/1.1.")
	switch {
	case errors.As(err, &r): // the gate's
	case errors.As(err, new(*fasthttp.ErrSmallBuffer)):
		r = callerRefusal(431, "header_too_large", "", "The request line and header are too large.")
	case isTimeout(err):
		r = callerRefusal(408, "request_timeout", "", "The request did not arrive in time.")
	}
	ctx.Response.Reset()
	ctx.SetStatusCode(r.status)
	ctx.Response.Header.SetContentType("application/json")
	lingerOn(ctx.Conn())
	id := g.ids.next()
	ctx.Response.Header.Set("x-request-id", hex.EncodeToString(id[:]))
	ctx.SetBody(errorBody(r))
	g.metrics.refused(r)
	g.metrics.routed(otherRoute, r.status)
	g.log.Info().Hex("id", id[:]).Str("path", "other").Str("fault", string(r.fault)).Str("code", r.code).Int("status", r.status).Send()
}
