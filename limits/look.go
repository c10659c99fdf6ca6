package limits

import (
	"context"
	"errors"

	"mete/auth"
)

// Check says whether a request of this key would be refused whatever it asks
// for: because of the key, or because a limit has nothing left. It charges
// nothing. Errors are those of Reserve.
func (l *Limiter) Check(ctx context.Context, key []byte) error {
	rec, err := l.identify(ctx, key)
	if err != nil {
		return err
	}
	err = l.withPlan(ctx, rec, func(rec *record, acc *account) (*record, error) {
		if err := l.stillRefused(rec, acc); err != nil {
			return nil, err
		}
		_, next, err := l.look(ctx, rec, acc)
		return next, err
	})
	if err != nil {
		l.refused(rec, "", err)
	}
	return err
}

// Status is who a key stands for and what is left.
type Status struct {
	Caller   auth.Caller
	Limits   []Left // empty: unlimited
	Degraded bool   // what is left of this gateway's share: Redis could not be asked
}

// Left is what is left of one limit; of concurrency Per and Reset are 0.
type Left struct {
	Kind Kind
	State
}

// Status looks a key up. Errors are those of Reserve but for *Exceeded.
func (l *Limiter) Status(ctx context.Context, key []byte) (Status, error) {
	rec, err := l.identify(ctx, key)
	if err != nil {
		return Status{}, err
	}
	var status Status
	err = l.withPlan(ctx, rec, func(rec *record, acc *account) (*record, error) {
		seen, next, err := l.look(ctx, rec, acc)
		status = Status{Caller: seen.caller, Limits: seen.limits(), Degraded: seen.degraded}
		return next, err
	})
	if refused := (*Exceeded)(nil); errors.As(err, &refused) {
		err = nil
	}
	if err != nil {
		return Status{}, err
	}
	return status, nil
}

// sight is what a look at an account's limits found.
type sight struct {
	caller   auth.Caller
	policy   *policy
	now      int64
	live     int64
	sums     []int64
	share    *share // of what the sums are; nil: of everything
	degraded bool
}

// look runs the admission without writing anything: would one more request of
// one token be let in?
func (l *Limiter) look(ctx context.Context, rec *record, acc *account) (sight, *record, error) {
	policy := acc.plan()
	if !l.mayAsk(acc) {
		return l.lookLocally(rec, acc, policy)
	}
	o := l.admitOp(rec, acc, policy, lookOnly)
	defer l.putAdmit(policy, o)
	for i := range o.cost {
		o.cost[i] = 1
	}
	r, rec, err := l.runAdmit(o, rec)
	if err != nil {
		return l.lookLocally(rec, acc, policy)
	}
	if r.verdict() > replyExceeded {
		next, err := l.keyState(ctx, rec, acc.name.plan, r.verdict())
		return sight{}, next, err
	}
	seen := sight{caller: rec.caller, policy: policy, now: r.now(), live: r.live()}
	for i := range policy.shapes {
		seen.sums = append(seen.sums, r.sum(i))
	}
	if r.verdict() == replyExceeded {
		return seen, nil, acc.refuse(policy, r)
	}
	return seen, nil, nil
}

func (l *Limiter) lookLocally(rec *record, acc *account, policy *policy) (sight, *record, error) {
	now := l.clock.now()
	if err := l.known(rec, now); err != nil {
		return sight{}, nil, err
	}
	acc.mu.Lock()
	defer acc.mu.Unlock()
	seen := sight{caller: rec.caller, policy: policy, now: now, live: int64(acc.grants.count), share: l.share.Load(), degraded: true}
	if acc.policy != policy {
		acc.adapt(policy)
	}
	cost := make([]int64, len(policy.shapes))
	for i := range cost {
		cost[i] = 1
	}
	err := acc.decide(seen.share, cost, now)
	for i := range acc.own {
		seen.sums = append(seen.sums, acc.own[i].sum)
	}
	return seen, nil, err
}

// limits says what is left of every limit.
func (s *sight) limits() []Left {
	if s.policy == nil {
		return nil
	}
	part := func(limit int64) int64 { return limit }
	if s.share != nil {
		part = s.share.of
	}
	var left []Left
	for i := range s.policy.shapes {
		shape := &s.policy.shapes[i]
		state := State{Limit: shape.limit, Per: shape.per, Remaining: max(0, part(shape.limit)-s.sums[i])}
		if s.sums[i] > 0 {
			state.Reset = micros(shape.leaves(shape.bucket(s.now)) - s.now)
		}
		left = append(left, Left{Kind: shape.kind, State: state})
	}
	if limit := s.policy.concurrent; limit > 0 {
		left = append(left, Left{Concurrent, State{Limit: limit, Remaining: max(0, part(limit)-s.live)}})
	}
	return left
}

// keyFirst is which of two errors the caller is told: whatever is wrong with
// the key, and otherwise what is wrong with the request.
func keyFirst(key, request error) error {
	if refused := (*Exceeded)(nil); key == nil || errors.As(key, &refused) {
		return request
	}
	return key
}
