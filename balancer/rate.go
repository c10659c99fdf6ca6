package balancer

import (
	"math"
	"sync"
	"sync/atomic"
)

// rate is how fast a replica works, learned from what passes by: the work that
// lay before a request when it was sent, over the time to its first token.
// Sums that decay are robust: one odd answer moves them little, and long waits,
// which tell most, weigh most.
type rate struct {
	now atomic.Uint64 // float64: work (in prompt tokens) a millisecond

	mu         sync.Mutex
	work, time float64 // decayed sums; time in milliseconds
}

const (
	rateMemory = 0.98  // of the sums is left after each answer: about the last fifty count
	usualRate  = 40.0  // tokens a millisecond, as long as nothing is known; only its ratio to others matters
	poolTime   = 1.0   // milliseconds of usualRate that a pool begins with: hardly any, or those who have shown nothing look slower than the others
	priorTime  = 200.0 // milliseconds of answers as fast as the pool's mean that each replica begins with
)

func (r *rate) learn(work, ms, prior, weight float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.work = r.work*rateMemory + work
	r.time = r.time*rateMemory + ms
	r.now.Store(math.Float64bits((r.work + prior*weight) / (r.time + weight)))
}

// get returns the rate, or prior where nothing was learned.
func (r *rate) get(prior float64) float64 {
	if v := math.Float64frombits(r.now.Load()); v > 0 {
		return v
	}
	return prior
}

// prior is the rate of a replica of which nothing is known: the others'.
func (p *Pool) prior() float64 { return p.speed.get(usualRate) }
