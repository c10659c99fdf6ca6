package load

import (
	"sync"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// The histograms hold nanoseconds, from a tenth of a microsecond to an hour, to
// three digits.
const (
	lowest  = int64(100)
	highest = int64(time.Hour)
)

// Metric names a latency, as `vllm bench serve` does in its results.
type Metric int

const (
	TTFT  Metric = iota // to the first event with choices; of a whole answer, to its first byte
	TPOT                // from there to the end, per further token
	ITL                 // between two events with choices
	E2EL                // to the end of the answer
	Queue               // from the intended to the actual sending, connecting included
	metrics
)

// String returns the metric's name in results.
func (m Metric) String() string {
	return [...]string{"ttft", "tpot", "itl", "e2el", "client_queue_time"}[m]
}

// Counters are totals since the start of a session, or since its last Reset.
type Counters struct {
	Sent, Completed, Failed    int64
	Events, Tokens, Bytes      int64 // that came in, those of unfinished answers included
	InFlight                   int64
	PromptTokens, AnswerTokens int64 // of completed requests
	Good                       int64 // completed within the goodput's bounds
	Redialled                  int64 // sent again, because the server had closed the idle connection
	Mismatched                 int64 // failed because the body was not the expected one
	Verified                   int64 // whose body was the expected one, byte for byte
}

// recorder collects what a session measures. It is safe for many goroutines.
type recorder struct {
	live  liveCounters
	limit Goodput

	mu         sync.Mutex
	generation int // grows with each reset
	began      time.Time
	histograms [metrics]*hdr.Histogram
	codes      map[string]int64
	totals     Counters // but for what is in live
	seconds    []int64  // tokens by second since began
	peak       int64    // most requests in flight at once
	details    []Detail
	detailed   bool
}

// liveCounters change with every event, so they stay out of the lock.
type liveCounters struct{ sent, events, tokens, bytes, inFlight atomic.Int64 }

func newRecorder(limit Goodput, detailed bool) *recorder {
	r := &recorder{limit: limit, detailed: detailed, codes: map[string]int64{}, began: time.Now()}
	for m := range r.histograms {
		r.histograms[m] = hdr.New(lowest, highest, 3)
	}
	return r
}

// reset forgets what was measured so far.
func (r *recorder) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.histograms {
		h.Reset()
	}
	clear(r.codes)
	r.generation++
	r.totals, r.seconds, r.details, r.peak = Counters{}, nil, nil, 0
	r.began = time.Now()
	for _, c := range []*atomic.Int64{&r.live.sent, &r.live.events, &r.live.tokens, &r.live.bytes} {
		c.Store(0)
	}
}

func (r *recorder) started() {
	r.live.sent.Add(1)
	n := r.live.inFlight.Add(1)
	r.mu.Lock()
	r.peak = max(r.peak, n)
	r.mu.Unlock()
}

func (r *recorder) counters() Counters {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.totals
	c.Sent, c.Events, c.Tokens = r.live.sent.Load(), r.live.events.Load(), r.live.tokens.Load()
	c.Bytes, c.InFlight = r.live.bytes.Load(), r.live.inFlight.Load()
	return c
}

func record(h *hdr.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(int64(d), 0), highest)) // within the bounds, so never an error
}

// intervals takes the times between a stream's events, which were gathered in
// one generation: those from before a reset are dropped.
func (r *recorder) intervals(generation int, itls []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if generation != r.generation {
		return
	}
	for _, d := range itls {
		record(r.histograms[ITL], d)
	}
}

func (r *recorder) currentGeneration() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.generation
}

// finished takes the outcome of one exchange.
func (r *recorder) finished(x *exchange) {
	r.live.inFlight.Add(-1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.unfinished {
		return
	}
	r.codes[x.code]++
	if r.detailed {
		r.details = append(r.details, x.detail(r.began))
	}
	record(r.histograms[Queue], x.sent.Sub(x.intended))
	if x.code != codeOK {
		r.totals.Failed++
		if x.code == codeMismatch {
			r.totals.Mismatched++
		}
		return
	}
	r.completed(x)
}

func (r *recorder) completed(x *exchange) {
	r.totals.Completed++
	r.totals.PromptTokens += int64(x.promptTokens)
	r.totals.AnswerTokens += int64(x.answerTokens)
	if x.match.want != nil {
		r.totals.Verified++
	}
	if x.redialled {
		r.totals.Redialled++
	}
	ttft, tpot, e2el := x.latencies()
	record(r.histograms[TTFT], ttft)
	record(r.histograms[E2EL], e2el)
	if x.answerTokens > 1 {
		record(r.histograms[TPOT], tpot)
	}
	if r.limit.meets(ttft, tpot, e2el) {
		r.totals.Good++
	}
	second := int(x.last.Sub(r.began) / time.Second)
	for len(r.seconds) <= second {
		r.seconds = append(r.seconds, 0)
	}
	if second >= 0 {
		r.seconds[second] += int64(x.answerTokens)
	}
}
