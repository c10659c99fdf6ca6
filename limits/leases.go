package limits

import (
	"context"
	"time"
)

// maxIDs is how many leases one run of keep.lua takes: Redis does nothing else
// meanwhile.
const maxIDs = 500

// renew takes the leases anew of everything that runs and whose lease is older
// than age. In good time that is every Lease/3 those older than half of that.
func (l *Limiter) renew(ctx context.Context, age time.Duration) error {
	before := l.clock.now() - age.Microseconds()
	for _, acc := range l.allAccounts() {
		grants := acc.borrow(func(g *Grant) bool { return g.held && g.renewed <= before })
		if len(grants) == 0 {
			continue
		}
		err := l.keepAlive(ctx, acc, nil, nil, grants)
		l.giveBack(acc, grants, err)
		if err != nil {
			return err
		}
	}
	return nil
}

// bringInAccount tells Redis what an account owes. Afterwards its requests ask
// Redis again, unless more came to be owed meanwhile; the last time they do so
// at once, for on a busy account there is always more.
func (l *Limiter) bringInAccount(ctx context.Context, acc *account, last bool) error {
	policy, owed := acc.takeOwed(last)
	grants := acc.borrow(func(g *Grant) bool { return !g.held })
	err := l.keepAlive(ctx, acc, policy, owed, grants)
	if err != nil {
		acc.restoreOwed(policy, owed)
	}
	l.giveBack(acc, grants, err)
	if err == nil {
		acc.clearOwed()
	}
	return err
}

// takeOwed takes what the account owes and leaves nothing in its place.
func (a *account) takeOwed(last bool) (*policy, []window) {
	a.mu.Lock()
	defer a.mu.Unlock()
	owed := a.owed
	a.owed = nil
	if !last {
		a.owed = make([]window, len(a.own))
	}
	return a.policy, owed
}

// restoreOwed puts back what Redis could not be told of.
func (a *account) restoreOwed(policy *policy, owed []window) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.owed == nil {
		a.owed = make([]window, len(a.own))
	}
	owed = carry(policy, a.policy, owed)
	for i := range owed {
		a.owed[i].roll(max(a.owed[i].newest, owed[i].newest))
		for _, b := range owed[i].charged() {
			a.owed[i].change(b.bucket, b.held)
		}
	}
}

// clearOwed ends the time in which requests do not ask Redis, if nothing is
// owed any more.
func (a *account) clearOwed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.owed {
		if a.owed[i].sum != 0 {
			return
		}
	}
	for g := a.grants.head; g != nil; g = g.next {
		if !g.held {
			return
		}
	}
	a.owed = nil
}

// borrow marks the grants that which picks as busy: until giveBack nobody ends
// them in Redis, so that no late call takes a lease for a request that is over.
func (a *account) borrow(which func(*Grant) bool) []*Grant {
	a.mu.Lock()
	defer a.mu.Unlock()
	var grants []*Grant
	for g := a.grants.head; g != nil; g = g.next {
		if which(g) {
			g.busy = true
			grants = append(grants, g)
		}
	}
	return grants
}

// giveBack ends what borrow began, with err being how the call for the leases
// went, and does for grants that ended meanwhile what was put off.
func (l *Limiter) giveBack(acc *account, grants []*Grant, err error) {
	now := l.clock.now()
	acc.mu.Lock()
	defer acc.mu.Unlock()
	for _, g := range grants {
		g.busy = false
		if err == nil {
			g.held, g.renewed = true, now
		}
		if g.diff == nil {
			continue
		}
		if !g.held {
			g.correct(acc.owed, g.diff)
			clear(g.diff)
		}
		o := g.policy.settles.Get().(*op)
		copy(o.cost, g.diff)
		copy(o.bucket, g.bucket)
		l.sendEnd(o, g)
	}
}

// keepAlive runs keep.lua: charges for what is owed, leases for the grants.
func (l *Limiter) keepAlive(ctx context.Context, acc *account, policy *policy, owed []window, grants []*Grant) error {
	charges := chargesOf(policy, owed)
	for {
		n := min(len(grants), maxIDs)
		args := []any{acc.windows, acc.live, l.clock.deadline(l.opt.Timeout), l.lease, acc.plan().ttl, len(charges) / 4}
		args = append(args, charges...)
		for _, g := range grants[:n] {
			args = append(args, &g.id)
		}
		answer, err := l.runScript(ctx, l.scripts.keep, 2, args...)
		if err != nil {
			return err
		}
		if answer[0] == replyLate {
			return errLocal
		}
		if grants, charges = grants[n:], nil; len(grants) == 0 {
			return nil
		}
	}
}

// chargesOf writes windows down as keep.lua takes them.
func chargesOf(policy *policy, owed []window) []any {
	var charges []any
	for i := range owed {
		s := &policy.shapes[i]
		for _, b := range owed[i].charged() {
			charges = append(charges, s.name, s.width, b.bucket, b.held)
		}
	}
	return charges
}

// sendEnd queues the settlement of a grant.
func (l *Limiter) sendEnd(o *op, g *Grant) {
	o.script, o.id, o.policy, o.account = l.scripts.settle, g.id, g.policy, g.account
	g.account.endsBegun.Add(1)
	o.args[argKeys], o.args[argKeys+1] = g.account.windows, g.account.live
	l.line.end(o)
}

// ended takes back a settlement that has been answered or given up.
func (l *Limiter) ended(o *op) {
	o.account.endsDone.Add(1)
	o.account = nil
	o.policy.settles.Put(o)
}
