package limits

import (
	"sync"
	"sync/atomic"
	"time"
)

// accountName is whose windows: all keys of an owner that have the same plan
// share one set of windows and slots. Two keys of an owner with different
// plans are measured apart, each against its own plan.
type accountName struct{ owner, plan string }

// account is what this gateway knows of one owner under one plan. Its windows
// hold only what this gateway let in; they are kept up to date on every
// request, so that a gateway that loses Redis goes on from there.
type account struct {
	name    accountName
	windows any // name of the hash of the windows in Redis, boxed
	live    any // name of the sorted set of the live requests, boxed

	// Settlements that were queued, and those that Redis has answered or that
	// were given up.
	endsBegun, endsDone atomic.Int64

	mu      sync.Mutex
	policy  *policy
	own     []window // what this gateway let in, in the order of policy.shapes
	owed    []window // the part of it that Redis does not know of; nil: none
	grants  grantList
	refused refusal
	used    int64 // when somebody last asked
	swept   bool  // it is no longer the limiter's
}

// refusal is a request window's refusal that is still true.
type refusal struct {
	until int64 // microseconds of Redis's clock
	err   Exceeded
}

// account returns the account of a record, made ready for its plan.
func (l *Limiter) account(rec *record) (*account, error) {
	policy := l.setup.Load().policies[rec.caller.Plan]
	if policy == nil {
		return nil, ErrPlan
	}
	name := accountName{owner: rec.caller.Owner, plan: rec.caller.Plan}
	for {
		l.accountsMu.RLock()
		acc := l.accounts[name]
		l.accountsMu.RUnlock()
		if acc == nil {
			acc = l.addAccount(name)
		}
		if acc.touch(policy, l.clock.now()) {
			return acc, nil
		}
	}
}

// touch notes that the account is in use, and under which form of its plan. It
// reports false if the account has just been swept away.
func (a *account) touch(policy *policy, now int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.swept {
		return false
	}
	a.used = now
	if a.policy != policy {
		a.adapt(policy)
	}
	return true
}

func (l *Limiter) addAccount(name accountName) *account {
	l.accountsMu.Lock()
	defer l.accountsMu.Unlock()
	if acc := l.accounts[name]; acc != nil {
		return acc
	}
	at := l.layout.Owner(name.owner)
	acc := &account{name: name, windows: at + "windows:" + name.plan, live: at + "live:" + name.plan}
	l.accounts[name] = acc
	return acc
}

// adapt takes over a changed plan; windows that both have go on.
func (a *account) adapt(policy *policy) {
	a.own = carry(a.policy, policy, a.own)
	if a.owed != nil {
		a.owed = carry(a.policy, policy, a.owed)
	}
	a.policy = policy
	a.refused = refusal{}
}

func carry(from, to *policy, windows []window) []window {
	carried := make([]window, len(to.shapes))
	for i := range to.shapes {
		for j := range windows {
			if from.shapes[j].name == to.shapes[i].name {
				carried[i] = windows[j]
			}
		}
	}
	return carried
}

// spend adds a request to windows: per window its cost, and in which bucket.
func spend(windows []window, buckets, cost []int64) {
	for i := range windows {
		windows[i].roll(buckets[i])
		windows[i].change(buckets[i], cost[i])
	}
}

// remembered is the refusal that is still true at now, if any.
func (a *account) remembered(now int64) error {
	if now >= a.refused.until {
		return nil
	}
	err := a.refused.err
	err.RetryAfter = micros(a.refused.until - now)
	return &err
}

// exceeded makes the error for a refusal by shape at; -1 is concurrency.
func (p *policy) exceeded(at int, wait, now int64, sums func(int) int64) *Exceeded {
	e := &Exceeded{Kind: Concurrent, Limit: p.concurrent, RetryAfter: micros(wait)}
	if at >= 0 {
		e.Kind, e.Limit, e.Per = p.shapes[at].kind, p.shapes[at].limit, p.shapes[at].per
	}
	e.Requests, e.Tokens = p.states(sums, now)
	return e
}

// sweep forgets accounts that nobody used for so long that nothing is lost.
func (l *Limiter) sweep() {
	l.accountsMu.Lock()
	defer l.accountsMu.Unlock()
	now := l.clock.now()
	for name, acc := range l.accounts {
		if acc.retire(now) {
			delete(l.accounts, name)
		}
	}
}

// retire marks an idle account as swept.
func (a *account) retire(now int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.owed != nil || a.grants.count > 0 || a.policy == nil {
		return false
	}
	longest := time.Minute
	for i := range a.policy.shapes {
		longest = max(longest, a.policy.shapes[i].per)
	}
	a.swept = now-a.used > longest.Microseconds()
	return a.swept
}
