package limits

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"mete/auth/redistest"
)

// Whoever waits as long as the refusal says is let in, and one microsecond
// earlier is not, if nothing else happens.
func TestRetryAfterIsTrue(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		rapid.Check(t, func(t *rapid.T) {
			p := newPolicy("p", plan(
				requests(rapid.Int64Range(1, 5).Draw(t, "requests"), 1500*time.Millisecond),
				requests(rapid.Int64Range(2, 9).Draw(t, "more requests"), 4*time.Second),
				tokens(rapid.Int64Range(10, 40).Draw(t, "tokens"), 2*time.Second),
			))
			b := newBench(t, rdb, p)
			now := int64(1_700_000_000_000_000)
			refusals := 0
			for step := range 8 {
				now += rapid.Int64Range(0, 300_000).Draw(t, "pause")
				n := rapid.Int64Range(1, 10).Draw(t, "tokens")
				cost := []int64{1, 1, n}
				r := b.admit(now, ID{byte(step)}, cost, 1)
				if r.verdict() == replyOK {
					continue
				}
				refusals++
				_, wait, _ := r.refusal()
				b.admitOp.mode = trustKey | lookOnly
				if early := b.admit(now+wait-1, ID{99}, cost, 1); early.verdict() != replyExceeded {
					t.Fatalf("told to wait %d us, let in after one less: %v", wait, early)
				}
				b.admitOp.mode = trustKey
				now += wait
				if r := b.admit(now, ID{byte(step), 1}, cost, 1); r.verdict() != replyOK {
					t.Fatalf("waited %d us as told, refused: %v", wait, r)
				}
			}
			if refusals == 0 {
				t.Skip("nothing was refused")
			}
		})
	})
}

// counting counts what goes to Redis.
type counting struct{ calls atomic.Int64 }

func (c *counting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.calls.Add(1)
		return next(ctx, cmd)
	}
}

func (c *counting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.calls.Add(1)
		return next(ctx, cmds)
	}
}

func TestAFloodOfRefusedRequestsCostsRedisNothing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		quiet := func(o *Options) { o.Beat, o.Flush, o.Lease = time.Hour, time.Hour, 3*time.Hour }
		r := newRig(t, rdb, plan(requests(1, time.Hour), tokens(100, time.Hour)), quiet)
		key := r.key("ann")
		r.mustTake(key, 1)
		calls := &counting{}
		rdb.AddHook(calls)
		var refused *Exceeded
		for range 100 {
			if _, err := r.take(key, 1); !errors.As(err, &refused) || refused.Kind != Requests {
				t.Fatalf("%v", err)
			}
		}
		if refused.RetryAfter > time.Hour+3*time.Minute || refused.RetryAfter < 50*time.Minute || refused.Requests.Limit != 1 || refused.Tokens.Remaining != 99 {
			t.Fatalf("refusal without asking: %+v", refused)
		}
		if n := calls.calls.Load(); n != 1 {
			t.Fatalf("100 refusals asked Redis %d times", n)
		}
		if s := r.Stats(); s.RefusedUnasked != 99 || s.Refused[Requests] != 100 {
			t.Fatalf("%+v", s)
		}
	})
}

// A smaller request may pass where a larger did not, and a slot comes free any
// time: these refusals are not remembered.
func TestRefusalsForTokensAndSlotsAreNotRemembered(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := newRig(t, rdb, plan(tokens(100, time.Hour), concurrent(2), requests(50, time.Hour)))
		key := r.key("ann")
		g := r.mustTake(key, 60)
		var refused *Exceeded
		if _, err := r.take(key, 60); !errors.As(err, &refused) || refused.Kind != Tokens {
			t.Fatalf("%v", err)
		}
		r.mustTake(key, 40)
		if _, err := r.take(key, 0); !errors.As(err, &refused) || refused.Kind != Concurrent || refused.RetryAfter != time.Second {
			t.Fatalf("%v, %+v", err, refused)
		}
		g.Settle(Usage{Prompt: 60})
		r.mustTake(key, 0)
	})
}

// The end of one request and the start of the caller's next go to Redis
// together, in this order.
func TestASlotIsFreeForTheCallersNextRequest(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := newRig(t, rdb, plan(concurrent(1)))
		key := r.key("ann")
		for range 200 {
			r.mustTake(key, 1).Settle(Usage{})
		}
	})
}

func TestStatesShowTheTightestWindow(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := newRig(t, rdb, plan(requests(10, time.Hour), requests(3, time.Minute), tokens(1000, time.Minute), concurrent(5)))
		key := r.key("ann")
		g := r.mustTake(key, 100)
		if s := g.Requests; s.Limit != 3 || s.Remaining != 2 || s.Per != time.Minute || s.Reset <= 57*time.Second || s.Reset > 63*time.Second {
			t.Errorf("requests: %+v", s)
		}
		if s := g.Tokens; s.Limit != 1000 || s.Remaining != 900 || s.Per != time.Minute {
			t.Errorf("tokens: %+v", s)
		}
		status, err := r.Status(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		want := []struct {
			kind             Kind
			limit, remaining int64
		}{{Requests, 3, 2}, {Requests, 10, 9}, {Tokens, 1000, 900}, {Concurrent, 5, 4}}
		for i, w := range want {
			if got := status.Limits[i]; got.Kind != w.kind || got.Limit != w.limit || got.Remaining != w.remaining {
				t.Errorf("status %d: %+v, want %+v", i, got, w)
			}
		}
		if status.Caller.Owner != "ann" || len(status.Caller.Last4) != 4 {
			t.Errorf("status of %+v", status.Caller)
		}
		free := r.mustTake(r.keyWith("bob", "unlimited"), 1)
		if free.Requests != (State{}) || free.Tokens != (State{}) {
			t.Errorf("unlimited: %+v %+v", free.Requests, free.Tokens)
		}
	})
}

func TestCheckRefusesWhatCouldNotBeLetInAndChargesNothing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := newRig(t, rdb, plan(tokens(10, time.Hour)))
		key := r.key("ann")
		for range 20 {
			if err := r.Check(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		r.mustTake(key, 10)
		var refused *Exceeded
		if err := r.Check(t.Context(), key); !errors.As(err, &refused) || refused.Kind != Tokens {
			t.Fatalf("with nothing left: %v", err)
		}
	})
}
