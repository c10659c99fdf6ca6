package trace

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// Options are what a Tracer is made of.
type Options struct {
	URL           string  // of the collector, path included
	Authorization string  // value of the header for it; empty is none
	Sample        float64 // part of the requests that begin a trace here, 0 to 1
	Service       string  // service.name
	Version       string  // service.version
	Instance      string  // service.instance.id

	// Trouble is told of spans that could not be sent, now and then. May be
	// nil.
	Trouble func(error)
}

// Tracer makes spans and sends them in the background. A nil *Tracer is one
// that is off.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	bound    uint64 // a trace is sampled when the low half of its id is below
	counts   counts
}

// counts are of spans.
type counts struct{ exported, failed atomic.Int64 }

// New makes a tracer; Close ends it. The collector need not be there.
func New(ctx context.Context, o Options) (*Tracer, error) {
	options := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(o.URL), otlptracehttp.WithTimeout(5 * time.Second)}
	if o.Authorization != "" {
		options = append(options, otlptracehttp.WithHeaders(map[string]string{"Authorization": o.Authorization}))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("trace exporter: %w", err)
	}
	t := &Tracer{bound: uint64(o.Sample * (1 << 63))}
	t.provider = sdk.NewTracerProvider(
		sdk.WithBatcher(&counting{SpanExporter: exporter, counts: &t.counts, trouble: o.Trouble}, sdk.WithBatchTimeout(time.Second)),
		sdk.WithSampler(sdk.AlwaysSample()), // Begin has decided
		sdk.WithIDGenerator(given{}),
		sdk.WithResource(resource.NewWithAttributes(semconv.SchemaURL,
			semconv.ServiceName(o.Service), semconv.ServiceVersion(o.Version), semconv.ServiceInstanceID(o.Instance))),
	)
	t.tracer = t.provider.Tracer("mete/proxy/trace", trace.WithSchemaURL(semconv.SchemaURL))
	return t, nil
}

// Close sends what waits, until ctx ends, and stops.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Spans are how many spans were sent, and how many could not be.
func (t *Tracer) Spans() (exported, failed int64) {
	if t == nil {
		return 0, 0
	}
	return t.counts.exported.Load(), t.counts.failed.Load()
}

// Begin reads a caller's traceparent, which may be empty, and decides whether
// the request is traced: as the caller's own trace is, or else by chance. A
// tracer that is off only passes the caller's context on.
func (t *Tracer) Begin(traceparent []byte) (c Context) {
	if len(traceparent) > 0 {
		c, _ = Parse(traceparent)
	}
	if t == nil {
		return c
	}
	if c.Given {
		c.Sampled = c.flags&flagSampled != 0
	} else if c.begin(); binary.BigEndian.Uint64(c.TraceID[8:])>>1 < t.bound {
		c.Sampled, c.flags = true, c.flags|flagSampled
	}
	if c.Sampled {
		c.Span = NewSpanID()
	} else if !c.Given {
		c.Parent = NewSpanID() // a replica wants to see some parent, to know that it need not trace
	}
	return c
}

// counting counts the spans that an exporter sends. Its errors end here, since
// the SDK would print them.
type counting struct {
	sdk.SpanExporter
	counts  *counts
	trouble func(error)
	told    time.Time // when trouble was last told; exports never overlap
}

// ExportSpans implements the SDK's SpanExporter.
func (c *counting) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := c.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		c.counts.exported.Add(int64(len(spans)))
		return nil
	}
	c.counts.failed.Add(int64(len(spans)))
	if now := time.Now(); c.trouble != nil && now.Sub(c.told) > time.Minute {
		c.told = now
		c.trouble(err)
	}
	return nil
}

// given generates the ids that a context holds: the replicas have been told
// them already.
type given struct{}

type idsKey struct{}

// ids are of the next span that is begun.
type ids struct {
	trace [16]byte
	span  SpanID
}

// NewIDs implements the SDK's IDGenerator.
func (given) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	next := ctx.Value(idsKey{}).(*ids)
	return next.trace, trace.SpanID(next.span)
}

// NewSpanID implements the SDK's IDGenerator.
func (given) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	return trace.SpanID(ctx.Value(idsKey{}).(*ids).span)
}
