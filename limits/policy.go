package limits

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"time"

	"mete/config"
)

// policy is a plan made ready for the scripts. It is immutable; a reload makes
// new ones.
type policy struct {
	name       string
	plan       config.Plan
	shapes     []shape // request windows first, each kind from the shortest to the longest
	concurrent int64   // 0: no limit
	ttl        any     // milliseconds for which the windows are kept without use
	admits     sync.Pool
	settles    sync.Pool
}

func newPolicy(name string, plan config.Plan) *policy {
	p := &policy{name: name, plan: plan}
	for _, limit := range plan.Limits {
		switch {
		case limit.Requests > 0:
			p.add(Requests, limit.Requests, limit.Per)
		case limit.Tokens > 0:
			p.add(Tokens, limit.Tokens, limit.Per)
		case p.concurrent == 0 || limit.Concurrent < p.concurrent:
			p.concurrent = limit.Concurrent
		}
	}
	slices.SortFunc(p.shapes, func(a, b shape) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.per, b.per))
	})
	longest := time.Second
	for i := range p.shapes {
		longest = max(longest, p.shapes[i].per)
	}
	p.ttl = (2 * longest).Milliseconds()
	p.admits.New = func() any { return newAdmitOp(p) }
	p.settles.New = func() any { return newSettleOp(p) }
	return p
}

// add keeps the smaller of two limits of one kind over the same time: they
// would share their window's name.
func (p *policy) add(kind Kind, limit int64, per time.Duration) {
	for i := range p.shapes {
		if s := &p.shapes[i]; s.kind == kind && s.per == per {
			s.limit = min(s.limit, limit)
			return
		}
	}
	us := per.Microseconds()
	p.shapes = append(p.shapes, shape{
		kind: kind, limit: limit, per: per,
		width: max(1, (us+buckets-1)/buckets),
		name:  string(kind[:1]) + strconv.FormatInt(us, 10) + ":",
	})
}

// cost is what one request with this many tokens is charged in a window.
func (s *shape) cost(tokens int64) int64 {
	if s.kind == Requests {
		return 1
	}
	return tokens
}

// permits returns an error if the plan may not use the model, or if some
// window could never hold the tokens.
func (p *policy) permits(model string, tokens int64) error {
	if !p.plan.MayUse(model) {
		return &ModelDenied{Model: model, Plan: p.name}
	}
	for i := range p.shapes {
		if s := &p.shapes[i]; s.kind == Tokens && tokens > s.limit {
			return &TooLarge{Asked: tokens, Limit: s.limit, Per: s.per}
		}
	}
	return nil
}

// states gives what is left of the tightest windows of both kinds after sums
// were charged, by a clock that stands at now.
func (p *policy) states(sums func(i int) int64, now int64) (requests, tokens State) {
	for i := range p.shapes {
		s := &p.shapes[i]
		state := &requests
		if s.kind == Tokens {
			state = &tokens
		}
		left := max(0, s.limit-sums(i))
		if state.Limit == 0 || left <= state.Remaining {
			*state = State{Limit: s.limit, Remaining: left, Per: s.per, Reset: micros(s.leaves(s.bucket(now)) - now)}
		}
	}
	return requests, tokens
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
