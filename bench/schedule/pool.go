package schedule

import (
	"fmt"
	"slices"
	"time"

	"mete/balancer"
)

// pool drives a real balancer.Pool in simulated time.
type pool struct {
	g        *gateway
	balancer *balancer.Pool
	queued   bool             // what exceeds the replicas' good range waits here
	waking   bool             // Expire is due
	nodes    map[string]*node // by URL
}

func newPool(g *gateway, queued bool) (*pool, error) {
	p := &pool{g: g, queued: queued, nodes: map[string]*node{}}
	var err error
	p.balancer, err = balancer.NewPool("pool", nil, balancer.Options{
		LearnCap: queued, Clock: p.clock, Random: g.random.Uint64,
		Queue: balancer.QueueOptions{MaxPerCaller: perCaller},
	})
	return p, err
}

// perCaller is how many requests of one caller may wait, so that one who floods
// leaves room in the queue.
const perCaller = 1000

func (p *pool) clock() int64 { return int64(p.g.w.now) + 1 }

// know tells the pool which replicas there are.
func (p *pool) know(replicas []*node) {
	urls := make([]string, len(replicas))
	for i, n := range replicas {
		urls[i] = n.url
		p.nodes[n.url] = n
	}
	if err := p.balancer.Update(balancer.Static(urls)); err != nil {
		panic(err) // the URLs are ours
	}
}

// take asks for a place, and sends the request when there is one.
func (p *pool) take(r *request) {
	p.balancer.Request(p.need(r), func(lease *balancer.Lease, err error) {
		if err != nil {
			p.g.w.books.refused(r)
			return
		}
		r.first = lease.FirstToken
		r.done = func() {
			lease.Used(int64(r.prompt + r.output))
			lease.Done(balancer.Success)
		}
		p.g.w.send(r, p.nodes[lease.Replica().URL])
	})
	p.wake()
}

func (p *pool) need(r *request) balancer.Need {
	need := balancer.Need{Tokens: int64(r.prompt), Output: expectedOutput}
	if p.g.w.Workload.chat != nil {
		need.Blocks = r.hashes(r.prompt, balancer.BlockTokens)
	}
	if p.queued {
		need.Turn = balancer.Turn{Caller: fmt.Sprint("caller ", r.caller), Wait: balancer.Forever}
	}
	return need
}

// expectedOutput is what the gateway takes an answer for: it cannot know.
const expectedOutput = 256

// wake sees to it that those who wait are looked at when time alone may have
// made a place.
func (p *pool) wake() {
	at, waits := p.balancer.NextExpiry()
	if !waits || p.waking {
		return
	}
	p.waking = true
	p.g.w.at(max(time.Duration(at-1), p.g.w.now), func() {
		p.waking = false
		p.balancer.Expire(p.clock())
		p.wake()
	})
}

// scrape tells the pool what every replica says of its load now.
func (p *pool) scrape() {
	for _, replica := range p.balancer.Replicas() {
		n := p.nodes[replica.URL]
		if !slices.Contains(p.g.replicas, n) {
			continue
		}
		l := n.engine.Load()
		p.balancer.Observe(replica, balancer.Load{Running: float64(l.Running), Waiting: float64(l.Waiting), KV: l.KVUsage})
	}
}
