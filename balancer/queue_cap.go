package balancer

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	capEvery  = 500 * time.Millisecond // between two changes of a cap, at least
	capSlack  = 4                      // requests that wait at a replica and do no harm: the next is there when one ends
	capFade   = 64                     // of the largest batch seen, the part that is forgotten at each look
	capLife   = 10 * time.Second       // without news, and it is forgotten
	capFullKV = 0.95                   // beyond this use of its cache a replica gets no more than it has
)

// reach learns how many of our requests a replica works on at once: the size of
// its batch, and a few more so that it never waits for us. What goes beyond
// waits at the replica just as long as it would here, but there nobody can be
// fair to it. There is no cap until the replica has been seen to have too much,
// and none any more when it has told nothing for capLife.
type reach struct {
	cap    atomic.Int64 // 0: none
	at     atomic.Int64 // when it was last looked at; 0 is never
	learns atomic.Bool

	mu    sync.Mutex // guards what follows
	state capState
}

// capState is what the pure part knows.
type capState struct {
	cap  int64   // 0: none
	peak float64 // the largest batch of late
	over int     // looks in a row at which too much was waiting
}

// full reports whether the replica has as much as it may.
func (r *Replica) full(set, now int64) bool {
	most := r.most(set, now)
	return most > 0 && r.inFlight.Load() >= most
}

// most is how many leases the replica may have: what is set, or what is learned
// if that is less. 0 is no limit.
func (r *Replica) most(set, now int64) int64 {
	learned := r.reach.cap.Load()
	if learned > 0 && (set <= 0 || learned < set) && r.reach.learns.Load() && now-r.reach.at.Load() < int64(capLife) {
		return learned
	}
	return set
}

// told takes in what the replica says while it has so many requests of ours.
func (c *reach) told(load Load, own, now int64) {
	if load.Waiting < 0 || !c.learns.Load() {
		return
	}
	c.look(now, func(s capState) capState { return s.told(load, own) })
}

// refused notes that the replica's own queue was full while it had so many.
func (c *reach) refused(own, now int64) {
	if !c.learns.Load() {
		return
	}
	c.look(now, func(s capState) capState {
		s.cap = max(1, own-max(1, own/8))
		return s
	})
}

// look changes the cap, unless that was done a moment ago.
func (c *reach) look(now int64, next func(capState) capState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.at.Load()
	if at != 0 && now-at < int64(capEvery) {
		return
	}
	if now-at > int64(capLife) {
		c.state = capState{}
	}
	c.state = next(c.state)
	c.at.Store(now)
	c.cap.Store(c.state.cap)
}

// told is the cap after one more look: lowered by half of what is too much when
// too much was there twice in a row, and raised by an eighth when we have filled
// it and nothing waits. It never goes below our part of the largest batch that
// the replica was seen to work on of late, so it costs no throughput.
func (s capState) told(load Load, own int64) capState {
	running := max(load.Running, 0)
	s.peak = max(running, s.peak-s.peak/capFade)
	slack := max(capSlack, s.peak/16)
	ours := 1.0
	if all := running + load.Waiting; load.Running >= 0 && all > float64(own) {
		ours = float64(own) / all
	}
	switch {
	case load.Waiting > slack:
		if s.over++; s.over >= 2 && own > 0 {
			s.lower((load.Waiting-slack)*ours, own, (s.peak+slack)*ours)
		}
	default:
		s.over = 0
		if load.Waiting == 0 && s.cap > 0 && own*10 >= s.cap*9 && load.KV < capFullKV {
			s.cap += max(1, s.cap/8)
		}
	}
	return s
}

func (s *capState) lower(excess float64, own int64, least float64) {
	have := own
	if s.cap > 0 {
		have = min(have, s.cap)
	}
	s.cap = max(1, int64(math.Ceil(max(float64(have)-excess/2, least))))
}
