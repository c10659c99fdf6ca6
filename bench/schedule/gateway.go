package schedule

import (
	"math/rand/v2"
	"time"
)

// gateway is one gateway with its policy. What it knows of the replicas is its
// own: it shares nothing with the others.
type gateway struct {
	w        *world
	random   *rand.Rand
	replicas []*node
	own      map[*node]int // requests in flight through this gateway
	total    int           // of own
	turn     int           // of round robin
	ring     ring
	pool     *pool // of the policies that are ours
	choose   chooser
	post     func(*request) // to a real gateway, which does all of it
}

// chooser picks a replica for a request.
type chooser func(g *gateway, r *request) *node

func newGateway(w *world, i int) (*gateway, error) {
	g := &gateway{w: w, random: stream(w.Seed, forPolicies, uint64(i)), own: map[*node]int{}, turn: i}
	p, err := policyNamed(w.Policy)
	if err != nil {
		return nil, err
	}
	g.choose = p.choose
	if p.ours {
		if g.pool, err = newPool(g, p.queued); err != nil {
			return nil, err
		}
	}
	g.know(w.serving())
	// Gateways scrape at moments of their own.
	w.at(time.Duration(g.random.Int64N(int64(scrapeEvery))), g.scrape)
	return g, nil
}

// know takes over which replicas there are.
func (g *gateway) know(replicas []*node) {
	g.replicas = replicas
	g.ring = newRing(replicas)
	if g.pool != nil {
		g.pool.know(replicas)
	}
}

// take answers a request.
func (g *gateway) take(r *request) {
	switch {
	case g.post != nil:
		g.post(r)
		return
	case g.pool != nil:
		g.pool.take(r)
		return
	}
	n := g.choose(g, r)
	g.own[n]++
	g.total++
	r.first = func() {}
	r.done = func() { g.own[n]--; g.total-- }
	g.w.send(r, n)
}

// scrape reads what the replicas say of their load.
func (g *gateway) scrape() {
	if g.pool == nil {
		return
	}
	g.pool.scrape()
	g.w.at(g.w.now+scrapeEvery, g.scrape)
}
