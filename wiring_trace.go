package main

import (
	"cmp"
	"context"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mete/proxy/meter"
	"mete/proxy/trace"
)

// openTracer makes what sends spans, if the configuration wants any. The
// collector need not be there.
func (r *running) openTracer(ctx context.Context) (err error) {
	c := r.cfg().Trace
	if c.URL == "" {
		return nil
	}
	host, _ := os.Hostname()
	r.tracer, err = trace.New(ctx, trace.Options{
		URL: c.URL, Authorization: c.Authorization.Reveal(), Sample: c.Sample,
		Service: "mete", Version: buildVersion(), Instance: cmp.Or(host, "mete") + " " + r.api.Addr().String(),
		Trouble: func(err error) { r.log.Warn().Err(err).Msg("spans were not sent") },
	})
	if err != nil {
		return err
	}
	r.onClose(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := r.tracer.Close(ctx); err != nil {
			r.log.Warn().Err(err).Msg("the last spans were not sent")
		}
	})
	return nil
}

// newTraceMeters tell of spans; of a tracer that is off, that there were none.
func newTraceMeters(b *meter.Book, t *trace.Tracer) *collector {
	c := &collector{book: b}
	spans := c.counter("trace_spans_total", "Spans, by what became of them: exported to the collector, or failed.", "result")
	c.read = func(to chan<- prometheus.Metric) {
		exported, failed := t.Spans()
		spans.put(to, float64(exported), "exported")
		spans.put(to, float64(failed), "failed")
	}
	return c
}
