package limits

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"mete/auth"
	"mete/config"
)

// Ask is one request that wants to be let in.
type Ask struct {
	ID    ID     // the gateway's own id of the request, never the caller's
	Key   []byte // as it came; nothing of it is kept
	Model string // one of the configuration's ids, not a piece of the request

	PromptTokens int64 // estimate, over all prompts of an array
	MaxTokens    int64 // of one answer; -1: the request does not say, the plan's default counts
	Answers      int64 // n or best_of, over all prompts of an array; below 1 counts as 1
}

// tokens is what the request may take at most, as far as one can tell.
func (a *Ask) tokens(plan *config.Plan) int64 {
	answer := a.MaxTokens
	if answer < 0 {
		answer = int64(plan.DefaultTokens)
	}
	return a.PromptTokens + answer*max(1, a.Answers)
}

// Reserve decides whether a request is let in and charges it to every limit
// and a slot, all or nothing. The Grant must be ended by Settle or Refund.
//
// Errors: auth.ErrMalformed, ErrUnknown, ErrExpired, ErrRevoked of the key;
// *ModelDenied, *TooLarge and *Exceeded of the plan; else one that wraps
// auth.ErrStore, which is our fault. Those about a key that is known are wrapped
// in a *Refused. It waits for Redis no longer than
// Options.Timeout per call and does not wait for ctx, which only has to be
// alive at the start.
func (l *Limiter) Reserve(ctx context.Context, ask Ask) (*Grant, error) {
	rec, err := l.identify(ctx, ask.Key)
	if err != nil {
		return nil, err
	}
	var grant *Grant
	err = l.withPlan(ctx, rec, func(rec *record, acc *account) (next *record, err error) {
		grant, next, err = l.reserve(ctx, rec, acc, &ask)
		return next, err
	})
	if err != nil {
		l.refused(rec, ask.Model, err)
		return nil, &Refused{Caller: &rec.caller, Err: err}
	}
	if !rec.caller.Static {
		l.opt.Saw(rec.caller.Owner, rec.caller.KeyID)
	}
	return grant, nil
}

// withPlan runs decide with the plan that the key has. That is for decide to
// find out: it returns the next record to try with if this one is out of date.
func (l *Limiter) withPlan(ctx context.Context, rec *record, decide func(*record, *account) (*record, error)) error {
	for range 4 {
		if err := ctx.Err(); err != nil {
			return err
		}
		acc, err := l.account(rec)
		if err != nil {
			return err
		}
		next, err := decide(rec, acc)
		if next == nil {
			return err
		}
		rec = next
	}
	return fmt.Errorf("%w: the key keeps changing", auth.ErrStore)
}

// reserve is one attempt under the plan of acc.
func (l *Limiter) reserve(ctx context.Context, rec *record, acc *account, ask *Ask) (*Grant, *record, error) {
	policy := acc.plan()
	tokens := ask.tokens(&policy.plan)
	if err := policy.permits(ask.Model, tokens); err != nil {
		// Whether the key works and still has this plan comes first.
		_, next, keyErr := l.look(ctx, rec, acc)
		return nil, next, keyFirst(keyErr, err)
	}
	if err := l.stillRefused(rec, acc); err != nil {
		return nil, nil, err
	}
	g := &Grant{
		Caller: &rec.caller, Plan: &policy.plan,
		limiter: l, account: acc, policy: policy, id: ask.ID, model: ask.Model, reserved: tokens,
	}
	g.bucket = g.charges(len(policy.shapes))
	next, err := l.admit(ctx, rec, acc, g)
	return g, next, err
}

// admit asks Redis, or decides from the local share if that is all there is.
func (l *Limiter) admit(ctx context.Context, rec *record, acc *account, g *Grant) (*record, error) {
	if !l.mayAsk(acc) {
		return nil, l.admitLocally(rec, acc, g, false)
	}
	o := l.admitOp(rec, acc, g.policy, 0)
	defer l.putAdmit(g.policy, o)
	o.id = g.id
	for i := range g.policy.shapes {
		o.cost[i] = g.policy.shapes[i].cost(g.reserved)
	}
	r, rec, err := l.askPatiently(o, rec, acc)
	g.Caller = &rec.caller
	switch {
	case err != nil:
		return nil, l.admitLocally(rec, acc, g, true)
	case r.verdict() == replyOK:
		l.admitted(acc, g, r, o.cost)
		return nil, nil
	case r.verdict() == replyExceeded:
		return nil, acc.refuse(g.policy, r)
	}
	return l.keyState(ctx, rec, acc.name.plan, r.verdict())
}

// askPatiently runs an admission, and once or twice more if it is refused a
// slot or tokens while ends of the caller's own requests were on their way:
// whoever has just ended a request may count on what it gave back.
func (l *Limiter) askPatiently(o *op, rec *record, acc *account) (reply, *record, error) {
	for try := 0; ; try++ {
		begun := acc.endsBegun.Load()
		onTheirWay := acc.endsDone.Load() < begun
		r, rec, err := l.runAdmit(o, rec)
		if err != nil || r.verdict() != replyExceeded || !onTheirWay || try == 2 {
			return r, rec, err
		}
		if _, _, requests := r.refusal(); requests > 0 {
			return r, rec, nil
		}
		acc.awaitEnds(begun, l.opt.Timeout)
	}
}

// awaitEnds waits until as many settlements are done as had begun. They are on
// another connection, which may be behind; usually that is a fraction of a
// millisecond, and never longer than a call to Redis may take.
func (a *account) awaitEnds(begun int64, atMost time.Duration) {
	const look = 50 * time.Microsecond
	for waited := time.Duration(0); a.endsDone.Load() < begun && waited < atMost; waited += look {
		time.Sleep(look)
	}
}

// runAdmit runs an admission; one that was late by Redis's clock is repeated,
// now that this clock is known. It also returns the record to go on with,
// which is another one if this one was a guess.
func (l *Limiter) runAdmit(o *op, rec *record) (reply, *record, error) {
	if rec.guess {
		o.aside = l.readAside(rec)
		defer func() { o.aside = nil }()
	}
	for range 2 {
		o.deadline = l.clock.deadline(l.opt.Timeout)
		l.line.run(o)
		if o.err != nil {
			l.nudge()
			return nil, rec, o.err
		}
		r := reply(o.cmd.Val())
		if !r.whole(len(o.cost)) {
			return nil, rec, fmt.Errorf("%w: script gave %d numbers", errLocal, len(r))
		}
		if r.verdict() == replyLate {
			continue
		}
		if rec.guess && r.verdict() != replyGone {
			rec = l.remember(rec.digest, rec.caller.Owner, rec.caller.KeyID, o.aside.Val())
		}
		if o.mode&trustKey == 0 && r.verdict() <= replyExceeded {
			rec.seen.Store(r.now())
		}
		return r, rec, nil
	}
	return nil, rec, errLocal
}

// readAside is the command that reads the fields of a record.
func (l *Limiter) readAside(rec *record) *redis.SliceCmd {
	args := []any{"hmget", rec.key}
	for _, field := range recordFields {
		args = append(args, field)
	}
	return redis.NewSliceCmd(context.Background(), args...)
}

// admitted notes a request that Redis let in.
func (l *Limiter) admitted(acc *account, g *Grant, r reply, cost []int64) {
	l.counts.admitted.Add(1)
	for i := range g.bucket {
		g.bucket[i] = r.bucket(i)
	}
	g.Requests, g.Tokens = g.policy.states(r.sum, r.now())
	g.held, g.renewed = true, r.now()
	acc.mu.Lock()
	defer acc.mu.Unlock()
	acc.grants.add(g)
	if acc.policy == g.policy {
		spend(acc.own, g.bucket, cost)
	}
}

// refuse makes the error for a refusal by Redis, and remembers one by a
// request window: until then nobody has to ask again. Tokens and slots are not
// remembered: a smaller request may pass, and a slot comes free any time.
func (a *account) refuse(p *policy, r reply) error {
	at, all, requests := r.refusal()
	for i := range p.shapes {
		if s := &p.shapes[i]; requests > 0 && s.kind == Requests && r.sum(i) >= s.limit {
			a.mu.Lock()
			a.refused = refusal{until: r.now() + requests, err: *p.exceeded(i, requests, r.now(), r.sum)}
			a.mu.Unlock()
		}
	}
	return p.exceeded(at, all, r.now(), r.sum)
}

// stillRefused is the refusal of the account's requests that is still true. It
// says nothing about a record that may belong to another account.
func (l *Limiter) stillRefused(rec *record, acc *account) error {
	if rec.guess {
		return nil
	}
	acc.mu.Lock()
	defer acc.mu.Unlock()
	err := acc.remembered(l.clock.now())
	if err != nil {
		l.counts.local.Add(1)
	}
	return err
}

func (a *account) plan() *policy {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.policy
}

// mayAsk reports whether Redis may be asked for this account: not while it has
// not been told what was let in without it.
func (l *Limiter) mayAsk(acc *account) bool {
	if !l.up.Load() {
		return false
	}
	acc.mu.Lock()
	defer acc.mu.Unlock()
	return acc.owed == nil
}

func (l *Limiter) admitOp(rec *record, acc *account, p *policy, mode int64) *op {
	o := p.admits.Get().(*op)
	o.script, o.mode = l.scripts.admit, mode
	if rec.caller.Static || rec.trusted.Load() > l.clock.now() {
		o.mode |= trustKey
	}
	o.args[argKeys], o.args[argKeys+1], o.args[argKeys+2] = acc.windows, acc.live, rec.key
	o.args[argLease] = l.lease
	return o
}

// putAdmit takes an op back, without its answer: an op that never gets to
// Redis must not show that of an earlier use.
func (l *Limiter) putAdmit(p *policy, o *op) {
	o.cmd.SetVal(nil)
	p.admits.Put(o)
}
