package limits

import (
	"time"

	"mete/auth"
)

// admitLocally decides from this gateway's share. asked says that Redis may
// have let the request in, and nobody heard of it.
func (l *Limiter) admitLocally(rec *record, acc *account, g *Grant, asked bool) error {
	now := l.clock.now()
	err := l.known(rec, now)
	if err == nil {
		err = acc.takeShare(l.share.Load(), g, now, asked)
	}
	switch {
	case err == nil:
		l.counts.degraded.Add(1)
		if l.up.Load() {
			l.nudge()
		}
	case asked:
		o := g.policy.settles.Get().(*op)
		clear(o.cost)
		l.sendEnd(o, g)
	}
	return err
}

// known reports whether a record may stand for the store, which cannot be
// asked: if it is young enough and the key has not expired since.
func (l *Limiter) known(rec *record, now int64) error {
	if rec.caller.Static {
		return nil
	}
	if e := rec.caller.Expires; !e.IsZero() && e.UnixMicro() <= now {
		return auth.ErrExpired
	}
	if now-rec.seen.Load() > l.opt.KnownFor.Microseconds() {
		return auth.ErrStore
	}
	return nil
}

// takeShare charges a request to this gateway's share and to what Redis has to
// be told of.
func (a *account) takeShare(s *share, g *Grant, now int64, asked bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.policy != g.policy {
		a.adapt(g.policy)
	}
	cost := make([]int64, len(a.policy.shapes))
	for i := range cost {
		cost[i] = a.policy.shapes[i].cost(g.reserved)
	}
	if err := a.decide(s, cost, now); err != nil {
		return err
	}
	for i := range g.bucket {
		g.bucket[i] = a.own[i].newest
	}
	if a.owed == nil {
		a.owed = make([]window, len(a.own))
	}
	spend(a.own, g.bucket, cost)
	spend(a.owed, g.bucket, cost)
	g.Requests, g.Tokens = a.policy.states(func(i int) int64 { return a.own[i].sum + a.policy.shapes[i].limit - s.of(a.policy.shapes[i].limit) }, now)
	g.Degraded, g.unsure, g.renewed = true, asked, now
	a.grants.add(g)
	return nil
}

// share is this gateway's part of every limit while Redis is away.
type share struct {
	gateways, place int64
	seen            int64 // when that was so, by Redis's clock
}

// of cuts limit into whole parts, of which the first gateways get one more, so
// that all parts together are limit.
func (s *share) of(limit int64) int64 {
	part := limit / s.gateways
	if s.place < limit%s.gateways {
		part++
	}
	return part
}

// decide decides a request from this gateway's share, without charging it. A
// request that the share could never hold is our failure, not the caller's.
func (a *account) decide(s *share, cost []int64, now int64) error {
	worst, at := int64(0), -1
	for i := range a.policy.shapes {
		shape, w := &a.policy.shapes[i], &a.own[i]
		w.roll(shape.bucket(now))
		part := s.of(shape.limit)
		if cost[i] > part {
			return auth.ErrStore
		}
		if us := w.wait(shape, part, cost[i], now); us > worst {
			worst, at = us, i
		}
	}
	full, err := a.full(s)
	if err != nil {
		return err
	}
	if full {
		worst = max(worst, time.Second.Microseconds())
	}
	if worst == 0 {
		return nil
	}
	return a.policy.exceeded(at, worst, now, func(i int) int64 { return a.own[i].sum })
}

// full reports whether this gateway's share of the slots is taken.
func (a *account) full(s *share) (bool, error) {
	limit := a.policy.concurrent
	if limit == 0 {
		return false, nil
	}
	part := s.of(limit)
	if part == 0 {
		return false, auth.ErrStore
	}
	return int64(a.grants.count) >= part, nil
}
