package sim

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// meters counts what a Replica has done.
type meters struct {
	accepted, inflight    atomic.Int64
	active                atomic.Int64
	finished, aborted     atomic.Int64
	failed, refused       atomic.Int64
	prompts, generated    atomic.Int64
	events                atomic.Int64
	ids                   atomic.Uint64
	firstToken, queueTime histogram
	whole                 histogram

	mu      sync.Mutex
	paths   map[string]int64
	reasons map[string]int64
	head    []byte
	body    []byte
}

// Stats is a snapshot of a replica's counters. An inference
// request that passed validation is at its end in exactly one of Finished,
// Aborted, Failed and Refused.
type Stats struct {
	Active           int   // requests in hand now, on any path
	Running, Waiting int   // sequences now
	Connections      int   // open now
	Accepted         int64 // connections ever
	Finished         int64 // answered to the end
	Aborted          int64 // the client left, or the replica closed
	Failed           int64 // cut, or answered with an injected error
	Refused          int64 // by a full queue
	PromptTokens     int64
	OutputTokens     int64            // sent
	Events           int64            // SSE events sent
	Requests         map[string]int64 // by path
	Finish           map[string]int64 // choices by finish reason
}

// Stats returns the counters.
func (r *Replica) Stats() Stats {
	m := &r.meters
	s := Stats{
		Active:  int(m.active.Load()),
		Running: int(m.inflight.Load()), Accepted: m.accepted.Load(),
		Finished: m.finished.Load(), Aborted: m.aborted.Load(), Failed: m.failed.Load(), Refused: m.refused.Load(),
		PromptTokens: m.prompts.Load(), OutputTokens: m.generated.Load(), Events: m.events.Load(),
	}
	if len(r.engines) > 0 {
		s.Running = 0
		for _, p := range r.engines {
			l := p.load()
			s.Running += l.Running
			s.Waiting += l.Waiting
		}
	}
	r.mu.Lock()
	s.Connections = len(r.conns)
	r.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Requests, s.Finish = maps.Clone(m.paths), maps.Clone(m.reasons)
	return s
}

// Await returns when cond holds for the counters, or with the context's error.
func (r *Replica) Await(ctx context.Context, cond func(Stats) bool) error {
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for !cond(r.Stats()) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// LastRequest returns copies of the head and the body of the last POST outside
// /sim: what reached the replica.
func (r *Replica) LastRequest() (head, body []byte) {
	m := &r.meters
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]byte(nil), m.head...), append([]byte(nil), m.body...)
}

func (m *meters) init() {
	m.paths, m.reasons = map[string]int64{}, map[string]int64{}
	m.firstToken.bounds, m.queueTime.bounds, m.whole.bounds = firstTokenBounds, wholeBounds, wholeBounds
}

// maxPaths bounds the map of paths against a client that makes them up.
const maxPaths = 100

func (m *meters) request(req *Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, seen := m.paths[req.Path]; seen || len(m.paths) < maxPaths {
		m.paths[req.Path]++
	}
	if req.Method == "POST" && !strings.HasPrefix(req.Path, "/sim/") {
		m.head, m.body = append(m.head[:0], req.Head...), append(m.body[:0], req.Body...)
	}
}

// enter counts n sequences in, unless that would exceed the limit. 0 is no
// limit.
func (m *meters) enter(n, limit int64) bool {
	for {
		have := m.inflight.Load()
		if limit > 0 && have+n > limit {
			return false
		}
		if m.inflight.CompareAndSwap(have, have+n) {
			return true
		}
	}
}

// settle books the end of an admitted request.
func (m *meters) settle(x *exchange, answers []answer, t *ticket, err error) {
	m.events.Add(int64(x.events))
	switch {
	case x.faulted, errors.Is(err, errCut):
		m.failed.Add(1)
		return
	case !x.complete, errors.Is(err, errClosing):
		m.aborted.Add(1)
		m.reason("abort")
		return
	}
	m.finished.Add(1)
	m.whole.observe(time.Since(t.arrived))
	for i := range answers {
		m.generated.Add(int64(len(answers[i].pieces)))
		m.reason(answers[i].finish)
	}
}

// spoiled books a request that a fault ended before it was admitted.
func (m *meters) spoiled(err error) {
	if errors.Is(err, errGone) || errors.Is(err, errClosing) {
		m.aborted.Add(1)
		return
	}
	m.failed.Add(1)
}

func (m *meters) reason(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reasons[name]++
}

// histogram has cumulative buckets as Prometheus writes them.
type histogram struct {
	mu     sync.Mutex
	bounds []float64 // seconds
	counts []int64   // one more than bounds
	sum    float64
	n      int64
}

// vLLM's own bucket bounds, seconds.
var (
	firstTokenBounds = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	wholeBounds      = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
)

func (h *histogram) observe(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.counts == nil {
		h.counts = make([]int64, len(h.bounds)+1)
	}
	s, i := d.Seconds(), 0
	for i < len(h.bounds) && s > h.bounds[i] {
		i++
	}
	h.counts[i]++
	h.sum += s
	h.n++
}
