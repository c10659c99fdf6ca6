package proxy

import (
	"cmp"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"

	"mete/balancer"
	"mete/limits"
)

// observe writes the exchange down: metrics, spans and one log line.
func (x *exchange) observe(outcome balancer.Outcome) {
	if x.streaming {
		x.g.metrics.streams.Dec()
	}
	x.awaited() // if it never came
	if x.unseen {
		return
	}
	now := time.Now()
	took := now.Sub(x.began)
	fault := x.fault(outcome)
	if x.table.config.Metrics.Requests {
		x.measure(outcome, fault, now)
	}
	if x.trace.Sampled {
		x.recordTrace(outcome, fault, took)
	}
	x.logLine(outcome, fault, took)
}

// measure counts and times the exchange.
func (x *exchange) measure(outcome balancer.Outcome, fault fault, now time.Time) {
	m := x.g.metrics
	m.routed(cmp.Or(x.route, otherRoute), x.status)
	if x.refusal != nil {
		m.refused(x.refusal)
	}
	if x.cut != nil {
		m.cut.WithLabelValues(string(fault)).Inc()
	}
	if outcome == balancer.ClientLeft || x.cancelled() == errClientLeft && !x.sse.done {
		m.left.WithLabelValues(x.phase.String()).Inc()
	}
	x.observeModel(outcome, fault, now.Sub(x.began))
	x.observeCaller(now)
}

func (x *exchange) observeModel(outcome balancer.Outcome, fault fault, took time.Duration) {
	if x.model == nil {
		if fault != faultNone {
			x.g.metrics.errors.WithLabelValues(unknownModel, string(fault)).Inc()
		}
		return
	}
	m := x.model.metrics
	m.count(x.status)
	if fault != faultNone {
		m.errors[fault].Inc()
	}
	if x.grant != nil && x.phase >= phaseQueue {
		x.model.pool.metrics.queueWait.Observe(x.stages.queue.took.Seconds())
	}
	if x.attempts == 0 {
		return
	}
	if x.refusal == nil {
		x.g.metrics.attempt(x.model.pool, outcome)
	}
	x.observeTimes(took)
	m.prompt.Add(float64(x.used.prompt))
	m.completion.Add(float64(x.used.completion))
	m.relayedBytes.Add(float64(x.bytesSent))
}

// observeTimes observes what a request that was sent to a replica took.
func (x *exchange) observeTimes(took time.Duration) {
	m, s := x.model.metrics, &x.stages
	x.observeTraced(m.duration, took)
	for i, stage := range [...]*span{stageAuth: &s.auth, stageRead: &s.read, stageLimit: &s.limit, stageQueue: &s.queue, stageConnect: &s.connect} {
		x.g.metrics.stages[i].Observe(stage.took.Seconds())
	}
	if s.sent > 0 && x.attempts == 1 {
		x.g.metrics.overhead.Observe((s.sent - s.read.took - s.queue.took - s.connect.took).Seconds())
	}
	if s.firstByte == 0 {
		return
	}
	answer := took - s.firstByte
	x.g.metrics.stages[stageFirstByte].Observe((s.firstByte - s.sent).Seconds())
	x.g.metrics.stages[stageAnswer].Observe(answer.Seconds())
	if !x.answer.stream {
		return
	}
	x.observeTraced(m.firstToken, s.firstByte)
	if n := x.used.completion; n > 1 && x.cut == nil {
		m.perToken.Observe(answer.Seconds() / float64(n-1))
	}
}

// awaited ends the wait for a stream's first token, once.
func (x *exchange) awaited() {
	if x.awaiting {
		x.awaiting = false
		x.model.metrics.awaited.end(x.stages.firstByte, x.began.Add(x.stages.firstByte))
	}
}

// observeCaller counts the exchange for the owner of its key.
func (x *exchange) observeCaller(now time.Time) {
	if x.caller == nil {
		return
	}
	m := x.g.metrics.callers.of(x.caller.Owner, now)
	if x.grant == nil {
		if x.refusal != nil && x.refusal.fault == faultLimit {
			m.limited.Inc()
		}
		return
	}
	m.requests.Inc()
	m.prompt.Add(float64(x.used.prompt))
	m.completion.Add(float64(x.used.completion))
}

// noteRefused notes whose request the limiter has refused.
func (x *exchange) noteRefused(err error) {
	var refused *limits.Refused
	if errors.As(err, &refused) {
		x.caller = refused.Caller
	}
}

// fault tells who is to blame for an exchange that did not succeed.
func (x *exchange) fault(outcome balancer.Outcome) fault {
	switch {
	case x.refusal != nil:
		return x.refusal.fault
	case outcome == balancer.ClientLeft && (x.cut == errDraining || errors.As(x.cut, new(*refusal))):
		return faultGateway
	case outcome == balancer.ClientLeft:
		return faultCaller
	case outcome != balancer.Success && outcome != balancer.Unused:
		return faultReplica
	}
	return faultNone
}

// logLine writes the one line of this exchange. It has no prompt and no key.
// Times are whole microseconds, which cost less to write than fractions.
func (x *exchange) logLine(outcome balancer.Outcome, fault fault, took time.Duration) {
	if fault == faultNone && !x.picked() {
		return
	}
	e := x.g.log.Info()
	if fault == faultReplica || fault == faultGateway || fault == faultStore {
		e = x.g.log.Warn()
	}
	if e == nil {
		return
	}
	var b [64]byte
	e.Bytes("id", hex.AppendEncode(b[:0], x.id[:])).Bytes("path", x.logPath())
	if x.head.clientID != nil {
		e.Bytes("client_id", x.head.clientID)
	}
	if x.trace.Sampled || x.trace.Given {
		e.Bytes("trace_id", x.trace.AppendTraceID(b[:0]))
	}
	x.logCaller(e)
	x.logAttempts(e, outcome)
	if fault != faultNone {
		e.Str("fault", string(fault))
	}
	if x.refusal != nil {
		e.Str("code", x.refusal.code)
	}
	if x.cut != nil {
		e.Str("cut", x.cut.Error())
	}
	e.Int("status", x.status).Int64("bytes", x.bytesSent).Int64("took_us", took.Microseconds()).Send()
}

// picked tells whether an exchange that went well is logged: a part of them is,
// and every one that is traced.
func (x *exchange) picked() bool {
	part := x.table.config.Log.Sample
	return part >= 1 || x.trace.Sampled || rand.Float64() < part
}

func (x *exchange) logCaller(e *zerolog.Event) {
	if c := x.caller; c != nil {
		e.Str("key", c.KeyID).Str("owner", c.Owner).Str("plan", c.Plan)
	}
	if x.model != nil {
		e.Str("model", x.model.ID).Str("pool", x.model.Pool)
	}
}

func (x *exchange) logAttempts(e *zerolog.Event, outcome balancer.Outcome) {
	s := &x.stages
	if x.grant != nil {
		e.Bool("stream", x.stream).Int64("limit_us", s.limit.took.Microseconds()).Int64("queue_us", s.queue.took.Microseconds())
	}
	if x.attempts == 0 {
		return
	}
	e.Str("replica", x.replica).Int("attempts", x.attempts).Str("outcome", outcome.String())
	if why := x.lease.Why(); why.Rank != "" {
		e.Str("choice", why.Rank).Int("of", why.Of).Int64("in_flight", why.InFlight)
	}
	if x.failure != nil {
		e.Str("failed", x.tries[0].replica.ID).Str("failure", x.failure.Error())
	}
	if s.connect.took > 0 {
		e.Int64("connect_us", s.connect.took.Microseconds())
	}
	e.Int64("first_byte_us", s.firstByte.Microseconds()).Int64("prompt_tokens", x.used.prompt).Int64("completion_tokens", x.used.completion)
}

// logPath is the path, as far as it is one of ours: what else a client sends
// there may be anything, a key included.
func (x *exchange) logPath() []byte {
	if x.endpoint != nil || x.status == 200 {
		return x.ctx.Request.URI().PathOriginal()
	}
	return []byte(otherRoute)
}
