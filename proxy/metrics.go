package proxy

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"mete/balancer"
	"mete/proxy/front"
	"mete/proxy/meter"
)

// metrics are the gateway's own. What is observed on every request is resolved
// to a handle once, per route, model, pool and caller.
type metrics struct {
	http       *prometheus.CounterVec // by route and status
	requests   *prometheus.CounterVec // by model and status
	refusals   *prometheus.CounterVec // by code and fault
	errors     *prometheus.CounterVec // by model and fault
	duration   *prometheus.HistogramVec
	firstToken *prometheus.HistogramVec
	interToken *prometheus.HistogramVec
	perToken   *prometheus.HistogramVec
	queueWait  *prometheus.HistogramVec // by pool
	tokens     *prometheus.CounterVec   // by model and kind
	bytes      *prometheus.CounterVec   // by model
	attempts   *prometheus.CounterVec   // by pool and outcome
	retries    *prometheus.CounterVec   // by pool and reason
	resends    *prometheus.CounterVec   // by pool
	left       *prometheus.CounterVec   // by phase
	cut        *prometheus.CounterVec   // by fault
	overhead   prometheus.Histogram
	streams    prometheus.Gauge
	unwatched  prometheus.Counter
	panics     prometheus.Counter
	turnedAway *prometheus.CounterVec // by reason
	stages     [stageCount]prometheus.Observer
	callers    *callers

	mu     sync.Mutex                    // guards the maps
	routes map[string]prometheus.Counter // status 200, by route; complete from the start
	models map[string]*modelMetrics
	pools  map[string]*poolMetrics
}

// modelMetrics are the handles of one model.
type modelMetrics struct {
	name                             string
	ok                               prometheus.Counter // status 200, by far the most
	requests                         *prometheus.CounterVec
	errors                           map[fault]prometheus.Counter
	duration, firstToken             prometheus.Observer
	interToken, perToken             prometheus.Observer
	prompt, completion, relayedBytes prometheus.Counter
	awaited                          firstTokens
	gone                             atomic.Bool // its series were removed
}

// poolMetrics are the handles of one pool.
type poolMetrics struct {
	attempts  []prometheus.Counter // by outcome
	retries   []prometheus.Counter // by the outcome of the attempt before
	resends   prometheus.Counter
	queueWait prometheus.Observer
}

// What the buckets span, in seconds.
var (
	latencyBuckets  = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}            // a cached first token; a long generation
	tokenBuckets    = []float64{.001, .0025, .005, .0075, .01, .015, .02, .03, .04, .05, .075, .1, .25, .5, 1, 2.5} // a small model; one that has been preempted
	overheadBuckets = []float64{25e-6, 50e-6, 100e-6, 200e-6, 400e-6, 800e-6, 1.6e-3, 5e-3, 25e-3, .1, .5}          // what the gateway itself takes
	stageBuckets    = []float64{10e-6, 50e-6, 100e-6, 250e-6, 1e-3, 5e-3, 25e-3, .1, .25, 1, 2.5, 10, 30, 120, 600} // a key's shape; a whole answer
)

// unknownModel stands for the model of an exchange that names none of ours.
const unknownModel = "none"

func newMetrics(b *meter.Book, ownerBound int) *metrics {
	m := &metrics{
		http:       b.Counters("http_requests_total", "Requests on the API listener, by route and HTTP status.", "route", "status"),
		requests:   b.Counters("requests_total", "Inference requests for a model that there is, by model and HTTP status.", "model", "status"),
		refusals:   b.Counters("refusals_total", "Requests that were answered with an error, by its code and by whose fault it was.", "code", "fault"),
		errors:     b.Counters("errors_total", "Exchanges that were refused, failed or cut, by model (none where it is not known) and by whose fault it was: caller, limit, replica, gateway, store.", "model", "fault"),
		duration:   b.Histograms("request_duration_seconds", "Time from a request's header to the end of its answer, of requests that were sent to a replica, by model.", latencyBuckets, "model"),
		firstToken: b.Histograms("time_to_first_token_seconds", "Time from a request's header to the first event of a streamed answer, by model.", latencyBuckets, "model"),
		interToken: b.Histograms("inter_token_latency_seconds", "Time between two parts of a streamed answer as they come from the replica, by model. A part usually is one event, and an event one token.", tokenBuckets, "model"),
		perToken:   b.Histograms("time_per_output_token_seconds", "Time from the first event of a streamed answer to its end, for each token after the first, by model.", tokenBuckets, "model"),
		queueWait:  b.Histograms("queue_wait_seconds", "Time that a request waited for a place on a replica, by pool.", stageBuckets, "pool"),
		tokens:     b.Counters("tokens_total", "Tokens that were charged, by model and kind (prompt, completion).", "model", "kind"),
		bytes:      b.Counters("answer_bytes_total", "Bytes of answers' bodies that were sent to clients, by model.", "model"),
		attempts:   b.Counters("attempts_total", "Requests sent to replicas, by pool and outcome.", "pool", "outcome"),
		retries:    b.Counters("retries_total", "Attempts on another replica, by pool and by the outcome of the attempt before.", "pool", "reason"),
		resends:    b.Counters("resends_total", "Requests that were sent once more to the same replica, because the connection had been closed by it meanwhile, by pool.", "pool"),
		left:       b.Counters("client_left_total", "Exchanges whose client left before the end, by how far they had come.", "phase"),
		cut:        b.Counters("answers_cut_total", "Answers that ended before they were whole, by whose fault it was.", "fault"),
		overhead:   b.Histogram("overhead_seconds", "Time that the gateway itself took before a request went to a replica: without the client's sending, waiting for a place, and connecting.", overheadBuckets),
		streams:    b.Gauge("streams", "Answers that are being relayed."),
		unwatched:  b.Counter("unwatched_total", "Exchanges whose connection could not be watched for the client's leaving."),
		panics:     b.Counter("panics_total", "Panics that were caught, each of which cost one request."),
		turnedAway: b.Counters("connections_refused_total", "Connections that were closed before a request, by reason: connections (too many), address (too many from one), no_header and bad_header (of the PROXY protocol), descriptors (the process has none left, and they wait).", "reason"),
		callers:    newCallers(b, ownerBound),
		routes:     map[string]prometheus.Counter{},
		models:     map[string]*modelMetrics{},
		pools:      map[string]*poolMetrics{},
	}
	stages := b.Histograms("stage_duration_seconds", "Time of each stage of a request that was sent to a replica: auth, read, limit, queue, connect, first_byte (from the sending on), answer (from the first byte on).", stageBuckets, "stage")
	for i := range m.stages {
		m.stages[i] = stages.WithLabelValues(stageNames[i])
	}
	for _, why := range front.Reasons() {
		m.turnedAway.WithLabelValues(string(why)) // there from the start
	}
	for _, name := range routes() {
		m.routes[name] = m.http.WithLabelValues(name, "200")
	}
	return m
}

// watch registers what is read from the gateway when it is scraped.
func (m *metrics) watch(b *meter.Book, g *Gateway) {
	b.GaugeFunc("in_flight", "Exchanges under way.", func() float64 { return float64(g.InFlight()) })
	b.GaugeFunc("body_bytes", "Memory that request bodies hold.", func() float64 { return float64(g.bodies.held.Load()) })
	b.GaugeFunc("client_connections", "Connections of clients to the API listener.", func() float64 { return float64(g.connections()) })
}

// model returns the handles of a model, which are made once.
func (m *metrics) model(name string) *modelMetrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	made, ok := m.models[name]
	if !ok {
		made = m.newModel(name)
		m.models[name] = made
	}
	return made
}

func (m *metrics) newModel(name string) *modelMetrics {
	made := &modelMetrics{
		name:         name,
		ok:           m.requests.WithLabelValues(name, "200"),
		requests:     m.requests,
		errors:       m.faultsOf(name),
		duration:     m.duration.WithLabelValues(name),
		firstToken:   m.firstToken.WithLabelValues(name),
		interToken:   m.interToken.WithLabelValues(name),
		perToken:     m.perToken.WithLabelValues(name),
		prompt:       m.tokens.WithLabelValues(name, "prompt"),
		completion:   m.tokens.WithLabelValues(name, "completion"),
		relayedBytes: m.bytes.WithLabelValues(name),
	}
	return made
}

// faultsOf has a series for every fault, so that an alert always finds one.
func (m *metrics) faultsOf(model string) map[fault]prometheus.Counter {
	made := make(map[fault]prometheus.Counter, len(faults))
	for _, f := range faults {
		made[f] = m.errors.WithLabelValues(model, string(f))
	}
	return made
}

// pool returns the handles of a pool, which are made once.
func (m *metrics) pool(name string) *poolMetrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	made, ok := m.pools[name]
	if ok {
		return made
	}
	made = &poolMetrics{queueWait: m.queueWait.WithLabelValues(name), resends: m.resends.WithLabelValues(name)}
	for _, o := range balancer.Outcomes() {
		made.attempts = append(made.attempts, m.attempts.WithLabelValues(name, o.String()))
		made.retries = append(made.retries, m.retries.WithLabelValues(name, o.String()))
	}
	m.pools[name] = made
	return made
}

// keep removes the series of the models and pools that there are no more. The
// functions are called without the lock, because they may make handles.
func (m *metrics) keep(model, pool func(name string) bool) {
	m.mu.Lock()
	models, pools := slices.Collect(maps.Keys(m.models)), slices.Collect(maps.Keys(m.pools))
	m.mu.Unlock()
	models = slices.DeleteFunc(models, model)
	pools = slices.DeleteFunc(pools, pool)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range models {
		if of, ok := m.models[name]; ok {
			of.gone.Store(true)
		}
		delete(m.models, name)
		m.forgetModel(name)
	}
	for _, name := range pools {
		delete(m.pools, name)
		m.forgetPool(name)
	}
}

func (m *metrics) forgetModel(name string) {
	of := prometheus.Labels{"model": name}
	for _, vec := range []*prometheus.CounterVec{m.requests, m.errors, m.tokens, m.bytes} {
		vec.DeletePartialMatch(of)
	}
	for _, vec := range []*prometheus.HistogramVec{m.duration, m.firstToken, m.interToken, m.perToken} {
		vec.DeletePartialMatch(of)
	}
}

func (m *metrics) forgetPool(name string) {
	of := prometheus.Labels{"pool": name}
	m.queueWait.DeletePartialMatch(of)
	for _, vec := range []*prometheus.CounterVec{m.attempts, m.retries, m.resends} {
		vec.DeletePartialMatch(of)
	}
}

func (m *metrics) attempt(p *pool, o balancer.Outcome) { p.metrics.attempts[o].Inc() }

func (m *metrics) refused(r *refusal) {
	m.refusals.WithLabelValues(r.code, string(r.fault)).Inc()
}

// routed counts one request of the API listener.
func (m *metrics) routed(route string, status int) {
	if c, ok := m.routes[route]; ok && status == 200 {
		c.Inc()
		return
	}
	m.http.WithLabelValues(route, strconv.Itoa(status)).Inc()
}

// count counts one request by its status.
func (m *modelMetrics) count(status int) {
	if status == 200 {
		m.ok.Inc()
		return
	}
	if m.gone.Load() {
		return // it would come back
	}
	m.requests.WithLabelValues(m.name, strconv.Itoa(status)).Inc()
}
