package limits

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"mete/auth/redistest"
)

// left is what Redis says is left of the first limit of a kind.
func (r *rig) left(key []byte, kind Kind) int64 {
	r.t.Helper()
	status, err := r.Status(context.Background(), key)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, l := range status.Limits {
		if l.Kind == kind {
			return l.Remaining
		}
	}
	r.t.Fatalf("no limit of %s", kind)
	return 0
}

func TestSettlementCorrectsWhatWasReserved(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		cases := []struct {
			name                   string
			end                    func(*Grant)
			tokens, requests, over int64 // left afterwards, and reported as overshoot
		}{
			{"less was used", func(g *Grant) { g.Settle(Usage{Prompt: 10, Completion: 20}) }, 970, 9, 0},
			{"more was used", func(g *Grant) { g.Settle(Usage{Prompt: 100, Completion: 200}) }, 700, 9, 200},
			{"all of it was used", func(g *Grant) { g.Settle(Usage{Prompt: 100}) }, 900, 9, 0},
			{"more than the whole window was used", func(g *Grant) { g.Settle(Usage{Prompt: 2000}) }, 0, 9, 1900},
			{"no replica was reached", func(g *Grant) { g.Refund() }, 1000, 10, 0},
			{"it was settled twice", func(g *Grant) { g.Settle(Usage{Prompt: 10}); g.Settle(Usage{Prompt: 10}) }, 990, 9, 0},
			{"it was settled and then refunded", func(g *Grant) { g.Settle(Usage{Prompt: 10}); g.Refund() }, 990, 9, 0},
			{"it was refunded and then settled", func(g *Grant) { g.Refund(); g.Settle(Usage{Prompt: 10}) }, 1000, 10, 0},
		}
		for i, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				r := newRig(t, rdb, plan(requests(10, time.Hour), tokens(1000, time.Hour), concurrent(3)))
				key := r.key("owner" + string(rune('a'+i)))
				c.end(r.mustTake(key, 100))
				r.settled()
				if got := r.left(key, Tokens); got != c.tokens {
					t.Errorf("%d tokens are left, want %d", got, c.tokens)
				}
				if got := r.left(key, Requests); got != c.requests {
					t.Errorf("%d requests are left, want %d", got, c.requests)
				}
				if got := r.left(key, Concurrent); got != 3 {
					t.Errorf("%d slots are left, want 3", got)
				}
				if got := r.Stats().OvershootTokens; got != c.over {
					t.Errorf("overshoot of %d, want %d", got, c.over)
				}
				acc := r.allAccounts()[0]
				if acc.grants.count != 0 || acc.own[0].sum != 10-c.requests || acc.own[1].sum != min(2000, 1000-c.tokens+max(0, c.over-900)) {
					t.Errorf("this gateway counts %d live, %d requests, %d tokens", acc.grants.count, acc.own[0].sum, acc.own[1].sum)
				}
			})
		}
	})
}

// What was used beyond the reservation holds later requests up.
func TestOvershootIsDebitedToLaterRequests(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := newRig(t, rdb, plan(tokens(100, time.Hour)))
		key := r.key("ann")
		r.mustTake(key, 10).Settle(Usage{Prompt: 10, Completion: 80})
		r.settled()
		var refused *Exceeded
		if _, err := r.take(key, 20); !errors.As(err, &refused) {
			t.Fatalf("with 90 of 100 used, 20 more: %v", err)
		}
		r.mustTake(key, 10)
	})
}

func TestManyEndsAtOnceEachCountOnce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := newRig(t, rdb, plan(tokens(1e6, time.Hour), concurrent(1e6)))
		key := r.key("ann")
		var work sync.WaitGroup
		for range 8 {
			work.Go(func() {
				for range 50 {
					g, err := r.take(key, 100)
					if err != nil {
						t.Error(err)
						return
					}
					for range 3 {
						work.Go(func() { g.Settle(Usage{Prompt: 7}) })
					}
				}
			})
		}
		work.Wait()
		r.settled()
		if got := r.left(key, Tokens); got != 1e6-400*7 {
			t.Errorf("%d tokens are left, want %d", got, int64(1e6-400*7))
		}
		if got := r.left(key, Concurrent); got != 1e6 {
			t.Errorf("%d slots are left", got)
		}
	})
}

func TestCloseWritesWhatWaits(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := newRig(t, rdb, plan(tokens(1000, time.Hour), concurrent(50)), func(o *Options) { o.Flush = time.Hour })
		key := r.key("ann")
		for range 20 {
			r.mustTake(key, 10).Settle(Usage{Prompt: 4, Completion: 1, TTFT: time.Second})
		}
		r.Close(t.Context())
		next := newRig(t, rdb, plan(tokens(1000, time.Hour), concurrent(50)))
		if got := next.left(key, Tokens); got != 900 {
			t.Errorf("%d tokens are left, want 900", got)
		}
		rows, err := next.Usage(t.Context(), UsageFilter{})
		if err != nil || len(rows) != 1 || rows[0].Requests != 20 || rows[0].PromptTokens != 80 || rows[0].TTFT != 20*time.Second {
			t.Errorf("usage: %+v, %v", rows, err)
		}
		if n := next.Stats().Gateways; n > 1 {
			t.Errorf("the gateway that closed still counts: %d", n)
		}
	})
}

func TestUsageIsRecordedPerKeyModelAndHour(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := newRig(t, rdb, plan(requests(3, time.Hour)), func(o *Options) { o.Flush = 5 * time.Millisecond })
		ann, bob := r.key("ann"), r.key("bob")
		r.mustTake(ann, 5).Settle(Usage{Prompt: 5, Completion: 7, TTFT: 20 * time.Millisecond})
		r.mustTake(ann, 5).Settle(Usage{Prompt: 5})
		r.mustTake(ann, 5).Refund()
		r.settled()
		other := ask(ann, 1)
		other.Model = "other"
		g, err := r.Reserve(t.Context(), other)
		if err != nil {
			t.Fatal(err)
		}
		g.Settle(Usage{Completion: 3, TTFT: time.Millisecond})
		for range 2 {
			if _, err := r.take(ann, 5); err == nil {
				t.Fatal("let in")
			}
		}
		r.mustTake(bob, 5).Settle(Usage{Prompt: 1})
		var rows []UsageRow
		eventually(t, "all rows are there", func() bool {
			rows, err = r.Usage(t.Context(), UsageFilter{Since: time.Now().Add(-time.Hour)})
			return err == nil && len(rows) == 3 && rows[0].Refused == 2 && rows[2].Requests == 1
		})
		if a := rows[0]; a.Owner != "ann" || a.Model != "mete" || a.Requests != 2 || a.PromptTokens != 10 || a.CompletionTokens != 7 || a.TTFT != 20*time.Millisecond || a.FirstTokens != 1 {
			t.Errorf("ann, mete: %+v", a)
		}
		if a := rows[1]; a.Model != "other" || a.Requests != 1 || a.CompletionTokens != 3 {
			t.Errorf("ann, other: %+v", a)
		}
		for name, f := range map[string]UsageFilter{
			"owner": {Owner: "bob"}, "key": {KeyID: rows[2].KeyID}, "owner and model": {Owner: "bob", Model: "mete"},
		} {
			if got, err := r.Usage(t.Context(), f); err != nil || len(got) != 1 || got[0].Owner != "bob" {
				t.Errorf("by %s: %+v, %v", name, got, err)
			}
		}
		if got, _ := r.Usage(t.Context(), UsageFilter{Owner: "ann", Until: time.Now().Add(-2 * time.Hour)}); len(got) != 0 {
			t.Errorf("two hours ago: %+v", got)
		}
		for _, name := range rdb.Keys(t.Context(), "*usage*").Val() {
			if rdb.TTL(t.Context(), name).Val() <= 0 {
				t.Errorf("%s never expires", name)
			}
		}
	})
}

// An addition that is sent again, because its answer was lost, counts once.
func TestUsageIsAddedOnce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := newRig(t, rdb, plan(), func(o *Options) { o.Flush = time.Hour })
		book := &usageBook{}
		book.add(usageKey{"ann", "k_1", "mete", 480000}, usageCounts{requests: 1, prompt: 2})
		book.makeUp()
		for range 3 {
			if err := r.write(t.Context(), book.sent[0]); err != nil {
				t.Fatal(err)
			}
		}
		got := rdb.HGetAll(t.Context(), r.usageName("ann", 480000)).Val()
		if got["k_1 mete requests"] != "1" || got["k_1 mete prompt"] != "2" || len(got) != 2 {
			t.Fatalf("%v", got)
		}
	})
}

func TestNothingOfAKeyIsKept(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := newRig(t, rdb, plan(requests(5, time.Hour)), func(o *Options) { o.Flush = time.Millisecond })
		key := r.key("ann")
		r.mustTake(key, 5).Settle(Usage{Prompt: 1})
		r.settled()
		_, err := r.take([]byte(unknownKey), 1)
		if strings.Contains(err.Error(), unknownKey[8:]) {
			t.Fatalf("error holds the key: %v", err)
		}
		secret := string(key[8:])
		for _, name := range rdb.Keys(t.Context(), "*").Val() {
			if strings.Contains(name, secret) || strings.Contains(dumpKey(t, rdb, name), secret) {
				t.Errorf("%s holds the key", name)
			}
		}
	})
}

func dumpKey(t *testing.T, rdb redis.UniversalClient, name string) string {
	ctx := t.Context()
	switch rdb.Type(ctx, name).Val() {
	case "string":
		return rdb.Get(ctx, name).Val()
	case "hash":
		return strings.Join(rdb.HVals(ctx, name).Val(), " ") + strings.Join(rdb.HKeys(ctx, name).Val(), " ")
	case "set":
		return strings.Join(rdb.SMembers(ctx, name).Val(), " ")
	}
	return strings.Join(rdb.ZRange(ctx, name, 0, -1).Val(), " ")
}

func FuzzParseUsageField(f *testing.F) {
	f.Add("k_0123456789abcdef mete requests")
	f.Add("k_0123456789abcdef  refused")
	f.Add("  ")
	f.Fuzz(func(t *testing.T, field string) {
		keyID, model, count, ok := parseUsageField(field)
		if ok && keyID+" "+model+" "+count != field {
			t.Errorf("%q was taken apart into %q, %q and %q", field, keyID, model, count)
		}
	})
}
