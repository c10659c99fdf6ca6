package balancer

import "math/bits"

const (
	// fewReplicas is how many are all looked at; of more, two are drawn.
	fewReplicas = 8
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
	came    int // how far down choose had to go: rankReady, rankSuspect or rankFull
}

// choose returns the replica that should take the request, or nil: one that is
// ready; failing that, a suspect; failing that, one whose queue was full.
func (q *question) choose(m *members) *Replica {
	q.patient, q.came = true, rankReady
	if r := q.pick(m.ready); r != nil {
		return r
	}
	q.came = rankSuspect
	if r := q.pick(m.suspects); r != nil {
		return r
	}
	q.patient, q.came = false, rankFull
	return q.pick(m.ready)
}

// pick returns the best of a few, or the better of two of many. Two choices are
// nearly as even as the least of all, cost the same for any number of replicas,
// and keep gateways that act at once from running together.
func (q *question) pick(replicas []*Replica) *Replica {
	if len(replicas) <= fewReplicas {
		return q.least(replicas)
	}
	a := q.draw(replicas, nil)
	b := q.draw(replicas, a)
	if a == nil || b == nil {
		return q.least(replicas)
	}
	if q.score(b) < q.score(a) {
		return b
	}
	return a
}

// least looks at all, and picks at random among equals.
func (q *question) least(replicas []*Replica) *Replica {
	var best *Replica
	var lowest float64
	equals := 0
	for _, r := range replicas {
		if !q.eligible(r) {
			continue
		}
		s := q.score(r)
		if best == nil || s < lowest {
			best, lowest, equals = r, s, 1
			continue
		}
		if s == lowest {
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

func (q *question) score(r *Replica) float64 {
	return r.score(q.need.Tokens, q.share, q.now)
}

// below is a random number in [0, n).
func (q *question) below(n int) int {
	high, _ := bits.Mul64(q.random(), uint64(n))
	return int(high)
}
