package limits

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"mete/auth/redistest"
	"mete/config"
)

func TestLimitsHoldAndGiveBack(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		cases := []struct {
			name  string
			plan  config.Plan
			cost  int64
			admit int
			kind  Kind
		}{
			{"requests in a window", plan(requests(3, time.Hour)), 1, 3, Requests},
			{"tokens in a window", plan(tokens(100, time.Hour)), 30, 3, Tokens},
			{"requests at one time", plan(concurrent(3)), 1, 3, Concurrent},
			{"the shorter of two windows", plan(requests(3, time.Hour), requests(4, 2*time.Hour)), 1, 3, Requests},
			{"the longer of two windows", plan(requests(4, time.Hour), requests(3, 2*time.Hour)), 1, 3, Requests},
			{"the smaller of two limits over the same time", plan(requests(4, time.Hour), requests(3, time.Hour)), 1, 3, Requests},
			{"tokens before requests", plan(requests(10, time.Hour), tokens(3, time.Hour)), 1, 3, Tokens},
			{"six windows and slots", plan(requests(9, time.Hour), requests(9, 2*time.Hour), requests(9, 3*time.Hour), tokens(99, time.Hour), tokens(99, 2*time.Hour), tokens(3, 3*time.Hour), concurrent(8)), 1, 3, Tokens},
		}
		for i, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				r := newRig(t, rdb, c.plan)
				key := r.key("owner" + string(rune('a'+i)))
				var grants []*Grant
				for range c.admit {
					grants = append(grants, r.mustTake(key, c.cost))
				}
				_, err := r.take(key, c.cost)
				var refused *Exceeded
				if !errors.As(err, &refused) || refused.Kind != c.kind || refused.RetryAfter <= 0 {
					t.Fatalf("request %d: %v (%+v)", c.admit+1, err, refused)
				}
				grants[0].Refund()
				r.settled()
				r.forget()
				r.mustTake(key, c.cost)
			})
		}
	})
}

// forget makes the limiter ask Redis again after a refusal.
func (r *rig) forget() {
	for _, acc := range r.allAccounts() {
		acc.mu.Lock()
		acc.refused = refusal{}
		acc.mu.Unlock()
	}
}

// What is not used any more goes away by itself.
func TestEverythingInRedisExpires(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := newRig(t, rdb, plan(requests(10, time.Hour), tokens(100, time.Minute)))
		key := r.key("ann")
		g := r.mustTake(key, 10)
		for name, want := range map[string]time.Duration{
			"mete:{ann}:windows:p": 2 * time.Hour, "mete:{ann}:live:p": time.Minute, "mete:gateways": 15 * time.Second,
		} {
			if got := rdb.PTTL(t.Context(), name).Val(); got < want-10*time.Second || got > want+10*time.Second {
				t.Errorf("%s expires after %v, want about %v", name, got, want)
			}
		}
		g.Settle(Usage{Prompt: 500})
		r.settled()
		if n := rdb.Exists(t.Context(), "mete:{ann}:live:p").Val(); n != 0 {
			t.Error("an empty set of live requests is kept")
		}
	})
}
