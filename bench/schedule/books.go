package schedule

import (
	"math"
	"slices"
	"time"
)

// sampleEvery is how often the state of the pool is looked at.
const sampleEvery = time.Second

// books count what happens.
type books struct {
	w        *world
	counting bool
	begun    tokens // when counting began
	waiting  int    // requests without a first token
	pending  map[*request]bool
	ttft     []time.Duration
	callers  map[int]*account
	metrics  Metrics
	prompts  int64 // tokens of prompts that were answered while counting
	cached   int64
	answered int64
	queue    []float64 // samples of waiting
	load     map[*node]float64
	samples  int
	peak     float64
}

type tokens struct{ output int64 }

// account is what one caller asked and got.
type account struct {
	ttft       []time.Duration
	asked, got float64 // tokens
}

func newBooks(w *world) *books {
	return &books{w: w, pending: map[*request]bool{}, callers: map[int]*account{}, load: map[*node]float64{}}
}

func (b *books) open() {
	b.counting = true
	b.begun = b.tokens()
}

func (b *books) tokens() (t tokens) {
	for _, n := range b.w.nodes {
		t.output += n.engine.Load().OutputTokens
	}
	return t
}

func (b *books) arrived(r *request) {
	b.waiting++
	if !b.counting {
		return
	}
	b.metrics.Requests++
	b.pending[r] = true
	b.account(r).asked += float64(r.prompt + r.output)
}

func (b *books) account(r *request) *account {
	a := b.callers[r.caller]
	if a == nil {
		a = &account{}
		b.callers[r.caller] = a
	}
	return a
}

func (b *books) refused(r *request) {
	b.waiting--
	if b.pending[r] {
		delete(b.pending, r)
		b.metrics.Refused++
	}
}

func (b *books) firstToken(r *request, cached int) {
	b.waiting--
	if !b.counting {
		return
	}
	b.prompts += int64(r.prompt)
	b.cached += int64(cached)
	if b.pending[r] {
		b.note(r)
		r.answered = true
	}
}

// hit adds what is known of the cache only at the end.
func (b *books) hit(cached int) {
	if b.counting {
		b.cached += int64(cached)
	}
}

func (b *books) note(r *request) {
	took := b.w.now - r.arrived + network
	b.ttft = append(b.ttft, took)
	b.account(r).ttft = append(b.account(r).ttft, took)
}

func (b *books) finished(r *request) {
	if !b.counting {
		return
	}
	b.metrics.Finished++
	b.answered += int64(r.prompt + r.output)
	b.account(r).got += float64(r.prompt + r.output)
	delete(b.pending, r)
}

// sample looks at the pool now and then.
func (b *books) sample() {
	b.w.at(b.w.now+sampleEvery, b.sample)
	if !b.counting {
		return
	}
	b.queue = append(b.queue, float64(b.waiting))
	most, sum, n := 0.0, 0.0, 0.0
	for _, node := range b.w.nodes {
		if !node.serves {
			continue
		}
		has := float64(node.inFlight)
		b.load[node] += has
		most, sum, n = max(most, has), sum+has, n+1
	}
	b.samples++
	if sum > 0 {
		b.peak += most / (sum / n)
	} else {
		b.peak++
	}
}

// close ends a run. A request that still has no first token counts with the
// time that it has waited so far, which is less than it would have been.
func (b *books) close() Metrics {
	for _, r := range b.inOrder() {
		b.metrics.Unfinished++
		if !r.answered {
			b.metrics.Unanswered++
			b.note(r)
		}
	}
	m := &b.metrics
	span := b.w.Window.Seconds()
	m.Load = b.w.Load
	m.TTFT = summarize(b.ttft)
	m.Tokens = float64(b.answered) / span
	m.Output = float64(b.tokens().output-b.begun.output) / span
	m.HitRate = float64(b.cached) / float64(max(b.prompts, 1))
	m.Imbalance, m.Peak = b.imbalance()
	m.Stable = steady(b.queue, b.w.Replicas) && b.kept()
	m.Others = summarize(b.others())
	m.Jain = b.jain()
	return *m
}

func (b *books) inOrder() []*request {
	var list []*request
	for r := range b.pending {
		list = append(list, r)
	}
	slices.SortFunc(list, func(x, y *request) int {
		if x.arrived != y.arrived {
			return int(x.arrived - y.arrived)
		}
		return x.number - y.number
	})
	return list
}

func (b *books) imbalance() (mean, peak float64) {
	most, sum, n := 0.0, 0.0, 0.0
	for _, node := range b.w.nodes {
		if l, ok := b.load[node]; ok && node.serves {
			most, sum, n = max(most, l), sum+l, n+1
		}
	}
	return most / math.Max(sum/n, 1e-9), b.peak / float64(max(b.samples, 1))
}

// steady reports whether the number of waiting requests did not grow: in the
// last third of the window it may be half more than in the middle one, and two
// for each replica.
func steady(queue []float64, replicas int) bool {
	third := len(queue) / 3
	return third == 0 || mean(queue[2*third:]) <= 1.5*mean(queue[third:2*third])+2*float64(replicas)
}

// kept reports whether nearly as many requests were finished as were meant to
// come: chats that wait for their answers ask less, so that their queue alone
// would not tell. The share leaves room for chance.
func (b *books) kept() bool {
	meant := b.w.Load * b.w.Window.Seconds()
	return float64(b.metrics.Finished) >= 0.92*meant
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(len(values), 1))
}
