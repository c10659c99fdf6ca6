package balancer

import "math/bits"

const (
	// placeTokens is what one request in flight weighs beside the prompt
	// tokens still to be prefilled: about one step of vLLM's default batch.
	placeTokens = 2048
	// fewReplicas is how many are all looked at; of more, two are drawn.
	fewReplicas = 8
	// draws bounds the tries to draw an eligible replica of many before all
	// are looked at after all.
	draws = 4
)

// choose returns the replica that should take the request, or nil. Two choices
// of many are nearly as even as the least of all, cost the same for any number
// of replicas, and keep gateways that act at once from running together.
func (p *Pool) choose(replicas []*Replica, need *Need) *Replica {
	if len(replicas) <= fewReplicas {
		return p.least(replicas, need)
	}
	a := p.draw(replicas, need, nil)
	b := p.draw(replicas, need, a)
	if a == nil || b == nil {
		return p.least(replicas, need)
	}
	if b.load() < a.load() {
		return b
	}
	return a
}

// least looks at all, and picks at random among equals.
func (p *Pool) least(replicas []*Replica, need *Need) *Replica {
	var best *Replica
	var lowest int64
	equals := 0
	for _, r := range replicas {
		if !p.eligible(r, need) {
			continue
		}
		w := r.load()
		if best == nil || w < lowest {
			best, lowest, equals = r, w, 1
			continue
		}
		if w == lowest {
			if equals++; p.below(equals) == 0 {
				best = r
			}
		}
	}
	return best
}

// draw returns an eligible replica at random, not other, or nil after some tries.
func (p *Pool) draw(replicas []*Replica, need *Need, other *Replica) *Replica {
	for range draws {
		r := replicas[p.below(len(replicas))]
		if r != other && p.eligible(r, need) {
			return r
		}
	}
	return nil
}

func (p *Pool) eligible(r *Replica, need *Need) bool {
	if r == need.Avoid[0] || r == need.Avoid[1] {
		return false
	}
	return p.options.MaxInFlight <= 0 || r.inFlight.Load() < p.options.MaxInFlight
}

// below is a random number in [0, n).
func (p *Pool) below(n int) int {
	high, _ := bits.Mul64(p.random(), uint64(n))
	return int(high)
}
