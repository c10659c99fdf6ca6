package limits

import (
	"sync/atomic"
	"time"

	"mete/auth"
	"mete/config"
)

// Grant is one request that was let in. Whoever holds it must end it once, by
// Settle or by Refund; a second end does nothing. Until then the limiter keeps
// its slot alive.
type Grant struct {
	Caller   *auth.Caller // shared, not to be changed
	Plan     *config.Plan // shared, not to be changed
	Requests State        // after this request
	Tokens   State        // after what this request reserved
	Degraded bool         // decided from this gateway's share: Redis could not be asked

	limiter  *Limiter
	account  *account
	policy   *policy
	id       ID
	model    string
	reserved int64
	ended    atomic.Bool

	// Guarded by account.mu.
	bucket     []int64 // per window, where it was charged
	few        [4]int64
	held       bool    // Redis has its lease, and what it was charged
	unsure     bool    // Redis may have a lease that nobody heard of
	busy       bool    // a call that takes a lease for it is out
	diff       []int64 // how it ended, if that was while busy
	renewed    int64   // when its lease was last taken, by Redis's clock
	next, prev *Grant
}

// Usage is what an exchange used, for the limits and for the usage record.
type Usage struct {
	Prompt, Completion int64         // tokens
	TTFT               time.Duration // from the request to the first token; 0: there was none
}

// Settle ends the request with what it used, which corrects what was reserved.
// It does not wait for Redis.
func (g *Grant) Settle(u Usage) {
	if !g.ended.CompareAndSwap(false, true) {
		return
	}
	l := g.limiter
	used := u.Prompt + u.Completion
	l.counts.settled(used, g.reserved)
	l.usage.add(l.usageRow(g.Caller.Owner, g.Caller.KeyID, g.model), usageCounts{
		requests: 1, prompt: u.Prompt, completion: u.Completion, ttft: u.TTFT.Microseconds(), firsts: first(u.TTFT),
	})
	g.end(0, used-g.reserved)
}

// Refund ends a request that reached no replica: it was never made.
func (g *Grant) Refund() {
	if !g.ended.CompareAndSwap(false, true) {
		return
	}
	g.limiter.counts.refunded.Add(1)
	g.end(-1, -g.reserved)
}

// end gives the slot back and corrects the windows, here and in Redis.
func (g *Grant) end(requests, tokens int64) {
	o := g.policy.settles.Get().(*op)
	for i := range g.policy.shapes {
		o.cost[i] = tokens
		if g.policy.shapes[i].kind == Requests {
			o.cost[i] = requests
		}
	}
	a := g.account
	a.mu.Lock()
	a.grants.remove(g)
	copy(o.bucket, g.bucket)
	g.correct(a.own, o.cost)
	send := g.held
	switch {
	case g.busy: // whoever made the call sees to the rest
		g.diff = append([]int64{}, o.cost...)
		send = false
	case !g.held:
		g.correct(a.owed, o.cost)
		clear(o.cost) // only the lease is to go, if there is one
		send = g.unsure
	}
	a.mu.Unlock()
	if send {
		g.limiter.sendEnd(o, g)
		return
	}
	g.policy.settles.Put(o)
}

// correct changes windows by diff: less in the bucket that was charged, more
// in the newest one, as settle.lua does. Windows of another policy are let be.
func (g *Grant) correct(windows []window, diff []int64) {
	if g.account.policy != g.policy || windows == nil {
		return
	}
	now := g.limiter.clock.now()
	for i := range windows {
		bucket := g.bucket[i]
		windows[i].roll(g.policy.shapes[i].bucket(now))
		if diff[i] > 0 {
			bucket = windows[i].newest
		}
		windows[i].change(bucket, diff[i])
	}
}

// charges makes room for a number per window.
func (g *Grant) charges(n int) []int64 {
	if n <= len(g.few) {
		return g.few[:n]
	}
	return make([]int64, n)
}

func first(ttft time.Duration) int64 {
	if ttft > 0 {
		return 1
	}
	return 0
}

// grantList is the live grants of an account, linked through themselves.
type grantList struct {
	head  *Grant
	count int
}

func (s *grantList) add(g *Grant) {
	g.next = s.head
	if s.head != nil {
		s.head.prev = g
	}
	s.head = g
	s.count++
}

func (s *grantList) remove(g *Grant) {
	if g.prev != nil {
		g.prev.next = g.next
	} else {
		s.head = g.next
	}
	if g.next != nil {
		g.next.prev = g.prev
	}
	g.next, g.prev = nil, nil
	s.count--
}
