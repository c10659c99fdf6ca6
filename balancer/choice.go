package balancer

import (
	"math"
	"math/bits"
	"slices"
)

const (
	// fewReplicas is how many are all looked at; of more, two are drawn.
	fewReplicas = 8
	// alike is how much worse than the best counts as no worse.
	alike = 1.03
	// homeTrust is how much of what another gateway would have sent to its home is
	// believed to be there.
	homeTrust = 0.8
	// draws bounds the tries to draw an eligible replica of many before all
	// are looked at after all.
	draws = 32
)

// question is one choice to be made.
type question struct {
	need    *Need
	now     int64
	share   float64 // of the whole traffic that is ours
	limit   int64   // leases per replica; 0 is none
	patient bool    // leave those alone whose queue was full a moment ago
	random  func() uint64
	prior   float64 // rate of a replica that has shown none
	found   matches // who holds what of the prompt
	home    uint16  // slot of the replica where the part that nobody is known to hold belongs; 0 is none
	came    int     // how far down choose had to go: rankReady, rankSuspect or rankFull
}

// choose returns the replica that should take the request, or nil: one that is
// ready; failing that, a suspect; failing that, one whose queue was full.
func (q *question) choose(m *members) *Replica {
	q.patient, q.came = true, rankReady
	if r := q.pick(m, m.ready); r != nil {
		return r
	}
	q.came = rankSuspect
	if r := q.pick(m, m.suspects); r != nil {
		return r
	}
	q.patient, q.came = false, rankFull
	return q.pick(m, m.ready)
}

// pick returns the best of a few; of many the best of two that are drawn, of
// those that hold some of the prompt, and of its home. Two choices are nearly as
// even as the least of all, cost the same for any number of replicas, and keep
// gateways that act at once from running together.
func (q *question) pick(m *members, replicas []*Replica) *Replica {
	if len(replicas) <= fewReplicas {
		return q.least(replicas)
	}
	a := q.draw(replicas, nil)
	b := q.draw(replicas, a)
	if a == nil || b == nil {
		return q.least(replicas)
	}
	best := q.better(replicas, q.better(replicas, a, b), m.bySlot[q.home])
	for _, f := range q.found.all[:q.found.n] {
		best = q.better(replicas, best, m.bySlot[f.slot])
	}
	return best
}

// better returns the better of two, of which the other may not be there.
func (q *question) better(replicas []*Replica, best, other *Replica) *Replica {
	if other != nil && other != best && q.eligible(other) && q.score(other) < q.score(best) && slices.Contains(replicas, other) {
		return other
	}
	return best
}

// least looks at all, and picks at random among those that are as good as the
// best, so that what is measured of one replica alone decides nothing by its
// noise, and each is measured now and then.
func (q *question) least(replicas []*Replica) *Replica {
	lowest := math.Inf(1)
	for _, r := range replicas {
		if q.eligible(r) {
			lowest = min(lowest, q.score(r))
		}
	}
	var best *Replica
	equals := 0
	for _, r := range replicas {
		if q.eligible(r) && q.score(r) <= lowest*alike {
			if equals++; q.below(equals) == 0 {
				best = r
			}
		}
	}
	return best
}

// draw returns an eligible replica at random, not other, or nil after some tries.
func (q *question) draw(replicas []*Replica, other *Replica) *Replica {
	for range draws {
		r := replicas[q.below(len(replicas))]
		if r != other && q.eligible(r) {
			return r
		}
	}
	return nil
}

func (q *question) eligible(r *Replica) bool { return q.objection(r) == "" }

// objectFull is the one objection that waiting will do away with.
const objectFull = "all places taken"

// objection is why a replica that is not held out may not take this request.
func (q *question) objection(r *Replica) string {
	switch {
	case r == q.need.Avoid[0] || r == q.need.Avoid[1]:
		return "already tried by this request"
	case r.full(q.limit, q.now):
		return objectFull
	case q.patient && q.now < r.fullTill.Load():
		return "its queue was full a moment ago"
	case !r.breaker.admits(q.now):
		return "breaker not closed"
	case q.need.Model != "" && !r.serves(q.need.Model):
		return "does not serve the model"
	}
	return ""
}

// uncached is how many tokens of the prompt the replica has to compute.
func (q *question) uncached(r *Replica) int64 {
	return max(q.need.Tokens-int64(q.found.of(r))*BlockTokens, min(q.need.Tokens, BlockTokens/4))
}

// hope is how many of them it may hold after all, because another gateway has
// sent the like there: each sends what it does not know to its home.
func (q *question) hope(r *Replica) float64 {
	if r.slot != q.home {
		return 0
	}
	return (1 - q.share) * homeTrust * float64(q.uncached(r))
}

// look finds out who holds what of the prompt, and where the rest belongs.
func (q *question) look(p *prefixes, m *members) {
	q.home = 0
	p.look(q.need.Blocks, &q.found, m)
	most := 0
	for _, f := range q.found.all[:q.found.n] {
		most = max(most, f.blocks)
	}
	if q.share == 1 || most >= min(len(q.need.Blocks), mostHits) {
		return
	}
	highest := uint64(0)
	for _, r := range m.ready {
		if h := r.home(q.need.Blocks[most]); h >= highest {
			q.home, highest = r.slot, h
		}
	}
}

func (q *question) work(r *Replica) work {
	return r.workOf(float64(q.uncached(r))-q.hope(r), q.share, q.now)
}

// score is the expected time to the first token in milliseconds, for the
// replica's share of the pool. The least is best.
func (q *question) score(r *Replica) float64 {
	w := q.work(r)
	return w.total() / q.speed(r)
}

// speed is how much work a millisecond does there, for the replica's share.
func (q *question) speed(r *Replica) float64 { return r.rate.get(q.prior) * r.capacity(q.now) }

// below is a random number in [0, n).
func (q *question) below(n int) int {
	high, _ := bits.Mul64(q.random(), uint64(n))
	return int(high)
}
