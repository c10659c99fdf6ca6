package limits

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// linger is how long a settlement waits for company.
const linger = 2 * time.Millisecond

// keep runs everything that has its own time: signs of life, leases, the usage
// record, and coming back after Redis was away.
func (l *Limiter) keep(ctx context.Context) {
	beat, renew := time.NewTicker(l.opt.Beat), time.NewTicker(l.opt.Lease/3)
	flush, sweep := time.NewTicker(l.opt.Flush), time.NewTicker(time.Minute)
	retry := time.NewTimer(0)
	for _, t := range []*time.Ticker{beat, renew, flush, sweep} {
		defer t.Stop()
	}
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			_ = l.beat(ctx) // the breaker counts it; the next beat tries again
		case <-renew.C:
			if l.up.Load() {
				_ = l.renew(ctx, l.opt.Lease/6) // the breaker counts it; there are two more times
			}
		case <-flush.C:
			l.flushUsage(ctx)
		case <-sweep.C:
			l.sweep()
		case <-l.owing:
			l.comeBack(ctx, retry)
		case <-retry.C:
			l.comeBack(ctx, retry)
		}
	}
}

// begin loads the scripts, which an admission would otherwise have to send in
// full, and says that this gateway is there. If Redis is away the admissions
// find out.
func (l *Limiter) begin(ctx context.Context) {
	err := l.ask(ctx, func(ctx context.Context) error {
		for _, s := range []script{l.scripts.admit, l.scripts.settle, l.scripts.keep, l.scripts.usage} {
			if err := l.opt.Redis.ScriptLoad(ctx, s.source.(string)).Err(); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		_ = l.beat(ctx) // the next beat tries again
	}
}

// comeBack brings Redis up to date and lets requests ask it again. If that
// does not work yet, retry says when to try again: soon as long as the breaker
// still counts, so that no request has to find out that Redis is away.
func (l *Limiter) comeBack(ctx context.Context, retry *time.Timer) {
	if l.bringIn(ctx) {
		l.up.Store(true)
		l.note(false)
		l.line.nudge()
		return
	}
	after := l.opt.Retry / 20
	if l.line.breaker.State() == gobreaker.StateOpen {
		l.note(true)
		after = l.opt.Retry / 4
	}
	retry.Reset(after)
}

// note raises the alarm when Redis goes away or comes back.
func (l *Limiter) note(away bool) {
	if l.away.Swap(away) == away {
		return
	}
	if away {
		l.opt.Alarm(RedisAway, nil)
		return
	}
	l.opt.Alarm(RedisBack, nil)
}

// settle sends settlements that no admission takes along within linger.
func (l *Limiter) settle(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.line.kick:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(linger):
		}
		if !l.line.flush() {
			l.nudge()
		}
	}
}

// bringIn tells Redis what was let in without it and takes leases for what
// still runs of that. It reports whether Redis answered all of it.
func (l *Limiter) bringIn(ctx context.Context) bool {
	if !l.up.Load() && l.beat(ctx) != nil {
		return false
	}
	for _, acc := range l.allAccounts() {
		// While one account is brought in more may be let in; it ends soon.
		for pass := 0; acc.owes(); pass++ {
			if l.bringInAccount(ctx, acc, pass >= 4) != nil {
				return false
			}
		}
	}
	return l.up.Load() || l.renew(ctx, 0) == nil // they may have lapsed, or be lost
}

func (l *Limiter) allAccounts() []*account {
	l.accountsMu.RLock()
	defer l.accountsMu.RUnlock()
	all := make([]*account, 0, len(l.accounts))
	for _, acc := range l.accounts {
		all = append(all, acc)
	}
	return all
}

func (a *account) owes() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.owed != nil
}

// beat says that this gateway is there and learns how many there are.
func (l *Limiter) beat(ctx context.Context) error {
	sent := time.Now()
	answer, err := l.runScript(ctx, l.scripts.beat, 1, l.gatewaysName(), l.id, (3 * l.opt.Beat).Microseconds())
	if err != nil {
		return err
	}
	l.clock.learn(answer[0], sent, time.Now())
	l.learnShare(share{gateways: max(1, answer[1]), place: answer[2], seen: answer[0]})
	return nil
}

// learnShare takes in how many gateways there are. That there are fewer is
// believed only after a while: a Redis that came back empty has heard of few.
func (l *Limiter) learnShare(now share) {
	before := l.share.Load()
	if now.gateways < before.gateways && now.seen-before.seen < (3*l.opt.Beat).Microseconds() {
		return
	}
	l.share.Store(&now)
}

func (l *Limiter) gatewaysName() string { return l.opt.Service + ":gateways" }

// leave is the end: what waits is written, and the other gateways are told.
func (l *Limiter) leave(ctx context.Context) {
	for l.line.pending() > 0 && ctx.Err() == nil && l.line.flush() {
		time.Sleep(time.Millisecond) // whoever flies now may take some along
	}
	l.line.close()
	l.flushUsage(ctx)
	_, _ = l.runScript(ctx, l.scripts.beat, 1, l.gatewaysName(), l.id, 0) // it is forgotten anyway
}

// runScript runs a script that is no admission. Its answer starts with two
// numbers at least, or there is an error.
func (l *Limiter) runScript(ctx context.Context, s script, keys int, rest ...any) ([]int64, error) {
	o := newOp(s, append([]any{keys}, rest...))
	err := l.ask(ctx, func(ctx context.Context) error {
		o.reset(false)
		err := l.opt.Redis.Process(ctx, o.cmd)
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			o.reset(true)
			err = l.opt.Redis.Process(ctx, o.cmd)
		}
		return err
	})
	return o.cmd.Val(), err
}
