package proxy

import (
	"encoding/hex"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mete/balancer"
	"mete/proxy/body"
	"mete/proxy/trace"
)

// recordTrace makes the spans of the exchange, from the times that it has
// written down. They hold nothing that the caller made up.
func (x *exchange) recordTrace(outcome balancer.Outcome, fault fault, took time.Duration) {
	s := &x.stages
	t := trace.Exchange{
		Context: x.trace, State: x.head.tracestate, Began: x.began, Took: took,
		Method: knownMethod(string(x.ctx.Method())), Route: x.spanRoute(), Status: x.status, Fault: string(fault), Cut: x.cut != nil,
		Stages: []trace.Stage{
			{Name: "auth", At: s.auth.at, Took: s.auth.took}, {Name: "read", At: s.read.at, Took: s.read.took},
			{Name: "limit", At: s.limit.at, Took: s.limit.took}, {Name: "queue", At: s.queue.at, Took: s.queue.took},
		},
	}
	if x.refusal != nil {
		t.Code = x.refusal.code
	}
	if c := x.caller; c != nil {
		t.Key, t.Owner, t.Plan = c.KeyID, c.Owner, c.Plan
	}
	if x.model != nil {
		t.Operation, t.Model, t.Pool = x.endpoint.operation(), x.model.ID, x.model.Pool
		t.Stream, t.MaxTokens, t.FirstByte = x.stream, x.most, s.firstByte
		t.Input, t.Output = x.used.prompt, x.used.completion
	}
	x.addAttempts(&t, outcome, took)
	x.g.tracer.Record(&t)
}

// addAttempts adds the requests to replicas. Only the last one has an answer.
func (x *exchange) addAttempts(t *trace.Exchange, outcome balancer.Outcome, took time.Duration) {
	for i := range x.attempts {
		a := &x.tries[i]
		made := trace.Attempt{
			Span: a.id, Replica: a.replica.ID, Outcome: a.outcome.String(), Failed: a.failure != nil, At: a.at, End: a.end,
			Stages: []trace.Stage{{Name: "connect", At: a.connect.at, Took: a.connect.took}},
		}
		if a.end == 0 {
			made.Outcome, made.End = outcome.String(), took
			made.Failed = outcome != balancer.Success
		}
		if s := &x.stages; i == x.attempts-1 && s.firstByte > 0 {
			made.Stages = append(made.Stages,
				trace.Stage{Name: "first_byte", At: s.sent, Took: s.firstByte - s.sent},
				trace.Stage{Name: "answer", At: s.firstByte, Took: made.End - s.firstByte})
		}
		t.Attempts = append(t.Attempts, made)
	}
}

// spanRoute is the path of one of our routes.
func (x *exchange) spanRoute() string {
	switch x.route {
	case "", otherRoute:
		return otherRoute
	case "model":
		return "/v1/models/{id}"
	}
	return string(x.ctx.Request.URI().PathOriginal())
}

func knownMethod(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return method
	}
	return "_OTHER"
}

// operation is the name that the conventions for generative AI have for what
// the endpoint does.
func (e *endpoint) operation() string {
	switch e.kind {
	case body.Chat:
		return "chat"
	case body.Completions:
		return "text_completion"
	case body.Embeddings:
		return "embeddings"
	}
	return e.name
}

// observeTraced observes a time, with the trace as its example if there is one.
func (x *exchange) observeTraced(o prometheus.Observer, d time.Duration) {
	if e, ok := o.(prometheus.ExemplarObserver); ok && x.trace.Sampled {
		e.ObserveWithExemplar(d.Seconds(), prometheus.Labels{"trace_id": hex.EncodeToString(x.trace.TraceID[:])})
		return
	}
	o.Observe(d.Seconds())
}
