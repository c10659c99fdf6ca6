package trace

import (
	"context"
	"net"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// provider is gen_ai.provider.name: what runs the models.
const provider = "vllm"

// Exchange is a request that is over, with its answer.
type Exchange struct {
	Context
	State []byte // the caller's tracestate

	Began  time.Time
	Took   time.Duration
	Method string
	Route  string // path of one of the API's routes
	Status int
	Code   string // of the error that it was answered with; empty for none
	Fault  string // whose fault it was that it did not succeed
	Cut    bool   // the answer ended before it was whole

	Key, Owner, Plan string // the key's id, never the key
	Operation        string // gen_ai.operation.name; empty for what is not inference
	Model, Pool      string
	Stream           bool
	MaxTokens        int64 // that the request asks for; below 0 it does not say
	Input, Output    int64 // tokens
	FirstByte        time.Duration

	Stages   []Stage // in the order of time, gone through or not
	Attempts []Attempt
}

// Stage is a part of an exchange; one that took no time was not gone through.
type Stage struct {
	Name     string
	At, Took time.Duration // since the exchange began
}

// Attempt is one request to a replica.
type Attempt struct {
	Span    SpanID // as the replica was told
	Replica string // host:port
	Outcome string
	Failed  bool
	At, End time.Duration // since the exchange began
	Stages  []Stage
}

// Record makes the spans of an exchange that is sampled.
func (t *Tracer) Record(x *Exchange) {
	next := &ids{trace: x.TraceID, span: x.Span}
	ctx := context.WithValue(context.Background(), idsKey{}, next)
	if x.Parent != (SpanID{}) {
		ctx = trace.ContextWithRemoteSpanContext(ctx, x.parent())
	}
	ctx, server := t.tracer.Start(ctx, x.Method+" "+x.Route, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithTimestamp(x.Began), trace.WithAttributes(x.attributes()...))
	for _, s := range x.Stages {
		t.stage(ctx, next, x, s)
	}
	for i := range x.Attempts {
		t.attempt(ctx, next, x, &x.Attempts[i])
	}
	if x.Status >= 500 || x.Cut {
		server.SetStatus(codes.Error, x.Code)
	}
	server.End(trace.WithTimestamp(x.Began.Add(x.Took)))
}

func (x *Exchange) parent() trace.SpanContext {
	state, _ := trace.ParseTraceState(string(x.State)) // what is not valid is left out
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: x.TraceID, SpanID: trace.SpanID(x.Parent), TraceFlags: trace.TraceFlags(x.flags), TraceState: state, Remote: true,
	})
}

func (t *Tracer) stage(ctx context.Context, next *ids, x *Exchange, s Stage) {
	if s.Took <= 0 {
		return
	}
	next.span = NewSpanID()
	_, span := t.tracer.Start(ctx, s.Name, trace.WithTimestamp(x.Began.Add(s.At)))
	span.End(trace.WithTimestamp(x.Began.Add(s.At + s.Took)))
}

// attempt makes the span of one request to a replica, as a client's.
func (t *Tracer) attempt(ctx context.Context, next *ids, x *Exchange, a *Attempt) {
	next.span = a.Span
	ctx, span := t.tracer.Start(ctx, x.Operation+" "+x.Model, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(x.Began.Add(a.At)), trace.WithAttributes(x.inference()...))
	host, port, _ := net.SplitHostPort(a.Replica)
	if n, err := strconv.Atoi(port); err == nil {
		span.SetAttributes(semconv.ServerAddress(host), semconv.ServerPort(n))
	}
	span.SetAttributes(attribute.String("mete.outcome", a.Outcome))
	if a.Failed {
		span.SetAttributes(semconv.ErrorTypeKey.String(a.Outcome))
		span.SetStatus(codes.Error, a.Outcome)
	}
	for _, s := range a.Stages {
		t.stage(ctx, next, x, s)
	}
	span.End(trace.WithTimestamp(x.Began.Add(a.End)))
}

// attributes are those of the server's span.
func (x *Exchange) attributes() []attribute.KeyValue {
	all := []attribute.KeyValue{
		semconv.HTTPRequestMethodKey.String(x.Method), semconv.HTTPRoute(x.Route), semconv.HTTPResponseStatusCode(x.Status),
	}
	if x.Code != "" {
		all = append(all, semconv.ErrorTypeKey.String(x.Code))
	}
	for key, value := range map[attribute.Key]string{
		"mete.fault": x.Fault, "mete.key": x.Key, "mete.owner": x.Owner, "mete.plan": x.Plan, "mete.pool": x.Pool,
	} {
		if value != "" {
			all = append(all, key.String(value))
		}
	}
	if x.Operation == "" || x.Model == "" {
		return all
	}
	return append(all, x.inference()...)
}

// inference are the attributes that the conventions for generative AI name.
func (x *Exchange) inference() []attribute.KeyValue {
	all := []attribute.KeyValue{
		semconv.GenAIOperationNameKey.String(x.Operation), semconv.GenAIProviderNameKey.String(provider),
		semconv.GenAIRequestModel(x.Model), semconv.GenAIRequestStream(x.Stream),
	}
	if x.MaxTokens >= 0 {
		all = append(all, semconv.GenAIRequestMaxTokens(int(x.MaxTokens)))
	}
	if x.Input > 0 {
		all = append(all, semconv.GenAIUsageInputTokens(int(x.Input)), semconv.GenAIUsageOutputTokens(int(x.Output)))
	}
	if x.FirstByte > 0 && x.Stream {
		all = append(all, semconv.GenAIResponseTimeToFirstChunk(x.FirstByte.Seconds()))
	}
	return all
}
