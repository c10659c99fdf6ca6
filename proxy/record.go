package proxy

import (
	"encoding/hex"
	"time"

	"github.com/rs/zerolog"

	"mete/balancer"
)

// observe writes the exchange down: metrics and one log line.
func (x *exchange) observe(outcome balancer.Outcome) {
	if x.unseen {
		return
	}
	took := time.Since(x.began)
	m := x.g.metrics
	if x.refusal != nil {
		m.refused(x.refusal)
	}
	if x.cut != nil {
		m.cut.WithLabelValues(string(x.fault(outcome))).Inc()
	}
	if outcome == balancer.ClientLeft || x.cancelled() == errClientLeft && !x.sse.done {
		m.left.WithLabelValues(x.phase.String()).Inc()
	}
	if x.model != nil {
		x.observeModel(outcome, took)
	}
	x.logLine(outcome, took)
}

func (x *exchange) observeModel(outcome balancer.Outcome, took time.Duration) {
	m := x.model.metrics
	m.count(x.status)
	if x.attempts == 0 {
		return
	}
	if x.refusal == nil {
		x.g.metrics.attempt(x.model.pool, outcome)
	}
	m.duration.Observe(took.Seconds())
	if x.stages.firstByte > 0 {
		m.firstByte.Observe(x.stages.firstByte.Seconds())
	}
	if s := &x.stages; s.sent > 0 && x.attempts == 1 {
		x.g.metrics.overhead.Observe((s.sent - s.read - s.queue - s.connect).Seconds())
	}
	m.prompt.Add(float64(x.used.prompt))
	m.completion.Add(float64(x.used.completion))
}

// fault tells who is to blame for an exchange that did not succeed.
func (x *exchange) fault(outcome balancer.Outcome) fault {
	switch {
	case x.refusal != nil:
		return x.refusal.fault
	case outcome == balancer.ClientLeft && x.cut == errDraining:
		return faultGateway
	case outcome == balancer.ClientLeft:
		return faultCaller
	case outcome != balancer.Success && outcome != balancer.Unused:
		return faultReplica
	}
	return faultNone
}

// logLine writes the one line of this exchange. It has no prompt and no key.
func (x *exchange) logLine(outcome balancer.Outcome, took time.Duration) {
	fault := x.fault(outcome)
	e := x.g.log.Info()
	if fault == faultReplica || fault == faultGateway || fault == faultStore {
		e = x.g.log.Warn()
	}
	if e == nil {
		return
	}
	var id [32]byte
	e.Bytes("id", hex.AppendEncode(id[:0], x.id[:])).Bytes("path", x.logPath())
	if x.head.clientID != nil {
		e.Bytes("client_id", x.head.clientID)
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
	e.Int("status", x.status).Int64("bytes", x.bytesSent).Dur("took", took).Send()
}

func (x *exchange) logCaller(e *zerolog.Event) {
	if x.grant != nil {
		c := x.grant.Caller
		e.Str("key", c.KeyID).Str("owner", c.Owner).Str("plan", c.Plan)
	}
	if x.model != nil {
		e.Str("model", x.model.ID)
	}
}

func (x *exchange) logAttempts(e *zerolog.Event, outcome balancer.Outcome) {
	if x.attempts == 0 {
		return
	}
	e.Str("replica", x.replica).Int("attempts", x.attempts).Stringer("outcome", outcome)
	if x.failure != nil {
		e.Str("failure", x.failure.Error())
	}
	e.Bool("stream", x.stream).Dur("limit", x.stages.limit).Dur("queue", x.stages.queue)
	e.Dur("first_byte", x.stages.firstByte).Int64("prompt_tokens", x.used.prompt).Int64("completion_tokens", x.used.completion)
}

// logPath is the path, as far as it is one of ours: what else a client sends
// there may be anything, a key included.
func (x *exchange) logPath() []byte {
	if x.endpoint != nil || x.status == 200 {
		return x.ctx.Request.URI().PathOriginal()
	}
	return []byte("other")
}
