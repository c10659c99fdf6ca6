package proxy

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"mete/balancer"
)

// metrics are the gateway's own. What is observed on every request is resolved
// to a handle once, per model and per pool.
type metrics struct {
	requests  *prometheus.CounterVec   // by model and status
	refusals  *prometheus.CounterVec   // by code and fault
	duration  *prometheus.HistogramVec // by model
	firstByte *prometheus.HistogramVec // by model
	overhead  prometheus.Histogram
	tokens    *prometheus.CounterVec // by model and kind
	attempts  *prometheus.CounterVec // by pool and outcome
	left      *prometheus.CounterVec // by phase
	cut       *prometheus.CounterVec // by fault
	unwatched prometheus.Counter
	panics    prometheus.Counter
	registry  prometheus.Registerer
}

// modelMetrics are the handles of one model.
type modelMetrics struct {
	ok                  prometheus.Counter // status 200, by far the most
	requests            *prometheus.CounterVec
	name                string
	duration, firstByte prometheus.Observer
	prompt, completion  prometheus.Counter
}

// poolMetrics are the handles of one pool.
type poolMetrics struct{ attempts []prometheus.Counter }

// latencyBuckets span a cached first token and a long generation, in seconds.
var latencyBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}

// overheadBuckets span what the gateway itself takes, in seconds.
var overheadBuckets = []float64{25e-6, 50e-6, 100e-6, 200e-6, 400e-6, 800e-6, 1.6e-3, 5e-3, 25e-3, .1, .5}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		requests:  counters("requests_total", "Requests, by model and HTTP status.", "model", "status"),
		refusals:  counters("refusals_total", "Requests that the gateway itself refused, by error code and by whose fault it was.", "code", "fault"),
		duration:  histograms("request_duration_seconds", "Time from a request's header to the end of its answer.", latencyBuckets, "model"),
		firstByte: histograms("time_to_first_byte_seconds", "Time from a request's header to the first byte of the replica's answer body.", latencyBuckets, "model"),
		overhead: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "mete", Name: "overhead_seconds", Buckets: overheadBuckets,
			Help: "Time that the gateway itself took before a request went to a replica: without the client's sending, waiting for a place, and connecting."}),
		tokens:    counters("tokens_total", "Tokens that were charged, by model and kind (prompt, completion).", "model", "kind"),
		attempts:  counters("attempts_total", "Requests sent to replicas, by pool and outcome.", "pool", "outcome"),
		left:      counters("client_left_total", "Exchanges whose client left before the end, by how far they had come.", "phase"),
		cut:       counters("answers_cut_total", "Answers that ended before they were whole, by whose fault it was.", "fault"),
		unwatched: counter("unwatched_total", "Exchanges whose connection could not be watched for the client's leaving."),
		panics:    counter("panics_total", "Panics, each of which cost one request."),
		registry:  r,
	}
	r.MustRegister(m.requests, m.refusals, m.duration, m.firstByte, m.overhead, m.tokens, m.attempts,
		m.left, m.cut, m.unwatched, m.panics)
	return m
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "mete", Name: name, Help: help}, labels)
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "mete", Name: name, Help: help})
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "mete", Name: name, Help: help, Buckets: buckets}, labels)
}

// watch registers what is read from the gateway when it is scraped.
func (m *metrics) watch(g *Gateway) {
	gauge := func(name, help string, read func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "mete", Name: name, Help: help}, read))
	}
	gauge("in_flight", "Exchanges under way.", func() float64 { return float64(g.InFlight()) })
	gauge("body_bytes", "Memory that request bodies hold.", func() float64 { return float64(g.bodies.held.Load()) })
}

func (m *metrics) model(name string) *modelMetrics {
	return &modelMetrics{
		ok:         m.requests.WithLabelValues(name, "200"),
		requests:   m.requests,
		name:       name,
		duration:   m.duration.WithLabelValues(name),
		firstByte:  m.firstByte.WithLabelValues(name),
		prompt:     m.tokens.WithLabelValues(name, "prompt"),
		completion: m.tokens.WithLabelValues(name, "completion"),
	}
}

func (m *metrics) pool(p *balancer.Pool) *poolMetrics {
	made := &poolMetrics{}
	for _, o := range balancer.Outcomes() {
		made.attempts = append(made.attempts, m.attempts.WithLabelValues(p.Name(), o.String()))
	}
	return made
}

func (m *metrics) attempt(p *pool, o balancer.Outcome) { p.metrics.attempts[o].Inc() }

func (m *metrics) refused(r *refusal) {
	m.refusals.WithLabelValues(r.code, string(r.fault)).Inc()
}

// count counts one request by its status.
func (m *modelMetrics) count(status int) {
	if status == 200 {
		m.ok.Inc()
		return
	}
	m.requests.WithLabelValues(m.name, strconv.Itoa(status)).Inc()
}
