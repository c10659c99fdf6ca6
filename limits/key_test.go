package limits

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"mete/auth"
	"mete/auth/redistest"
	"mete/config"
)

const unknownKey = "sk-mete-0123456789012345678901234567890123456789"

func TestAKeyIsRefusedForWhatItIs(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := newRig(t, rdb, plan(requests(100, time.Hour)))
		works, revoked, expired := r.key("ann"), r.key("bob"), r.key("cid")
		for _, key := range [][]byte{works, revoked, expired} {
			r.mustTake(key, 1).Settle(Usage{})
		}
		r.set(revoked, auth.FieldRevoked, "1")
		r.set(expired, auth.FieldExpires, "1")
		cases := []struct {
			name string
			key  string
			want error
		}{
			{"nothing", "", auth.ErrMalformed},
			{"another service's key", "sk-meta" + unknownKey[7:], auth.ErrMalformed},
			{"a key that is too long", string(works) + "0", auth.ErrMalformed},
			{"a key nobody made", unknownKey, auth.ErrUnknown},
			{"a revoked key that was let in before", string(revoked), auth.ErrRevoked},
			{"an expired key that was let in before", string(expired), auth.ErrExpired},
			{"a revoked key that this gateway sees first", string(r.dead("dan", auth.FieldRevoked, "1")), auth.ErrRevoked},
			{"a key revoked in the future by a clock that is ahead", string(r.dead("eva", auth.FieldRevoked, "99999999999999")), auth.ErrRevoked},
			{"a key that expires in the future", string(r.dead("fay", auth.FieldExpires, "99999999999999")), nil},
			{"a key that works", string(works), nil},
		}
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				if _, err := r.take([]byte(c.key), 1); !errors.Is(err, c.want) {
					t.Errorf("Reserve: %v, want %v", err, c.want)
				}
				if err := r.Check(t.Context(), []byte(c.key)); !errors.Is(err, c.want) {
					t.Errorf("Check: %v, want %v", err, c.want)
				}
				if _, err := r.Status(t.Context(), []byte(c.key)); !errors.Is(err, c.want) {
					t.Errorf("Status: %v, want %v", err, c.want)
				}
				tooLarge := ask([]byte(c.key), 1)
				tooLarge.Model = "denied"
				if _, err := r.Reserve(t.Context(), tooLarge); c.want != nil && !errors.Is(err, c.want) {
					t.Errorf("Reserve of a request that no plan allows: %v, want %v", err, c.want)
				}
			})
		}
	})
}

// set writes a field of a key's hash.
func (r *rig) set(key []byte, field, value string) {
	r.t.Helper()
	_, id, owner, err := r.find(r.t.Context(), key)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.rdb.HSet(r.t.Context(), r.layout.Key(owner, id), field, value).Err(); err != nil {
		r.t.Fatal(err)
	}
}

// dead makes a key with a field set before anybody saw it.
func (r *rig) dead(owner, field, value string) []byte {
	key := r.key(owner)
	r.set(key, field, value)
	return key
}

func TestAKeyThatIsForgottenIsUnknown(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := newRig(t, rdb, plan())
		key := r.key("ann")
		r.mustTake(key, 1)
		digest, id, owner, err := r.find(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		rdb.Del(t.Context(), r.layout.Key(owner, id))
		rdb.Del(t.Context(), r.layout.Digest(digest))
		if _, err := r.take(key, 1); !errors.Is(err, auth.ErrUnknown) {
			t.Fatalf("forgotten key: %v", err)
		}
	})
}

// Three gateways under load: what begins after Revoke has returned is refused.
func TestARevokedKeyIsRefusedOnItsNextRequestEverywhere(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		gateways := []*rig{newRig(t, rdb, plan()), newRig(t, rdb, plan()), newRig(t, rdb, plan())}
		plaintext, record, err := gateways[0].store.Create(t.Context(), auth.Request{Name: "n", Owner: "ann", Plan: "p", Origin: auth.FromCLI})
		if err != nil {
			t.Fatal(err)
		}
		var revoked atomic.Bool
		var admitted, late atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var work sync.WaitGroup
		for _, g := range gateways {
			for range 2 {
				work.Go(func() {
					for ctx.Err() == nil {
						before := revoked.Load()
						grant, err := g.take([]byte(plaintext), 1)
						if err == nil {
							grant.Settle(Usage{Prompt: 1})
							admitted.Add(1)
						}
						if err == nil && before {
							late.Add(1)
						}
						if err != nil && !errors.Is(err, auth.ErrRevoked) {
							t.Errorf("refused with %v", err)
							return
						}
					}
				})
			}
		}
		eventually(t, "all three are busy", func() bool { return admitted.Load() > 100 })
		if _, err := gateways[0].store.Revoke(t.Context(), record.ID); err != nil {
			t.Fatal(err)
		}
		revoked.Store(true)
		time.Sleep(50 * time.Millisecond) // for requests that are wrongly let in to show
		stop()
		work.Wait()
		if n := late.Load(); n != 0 {
			t.Fatalf("%d requests were let in after the key was revoked", n)
		}
	})
}

func TestAChangedPlanCountsAtOnce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := newRig(t, rdb, plan(requests(1, time.Hour)))
		key := r.key("ann")
		r.mustTake(key, 1)
		r.set(key, auth.FieldPlan, "unlimited")
		r.forget()
		for range 3 {
			if g := r.mustTake(key, 1); g.Caller.Plan != "unlimited" {
				t.Fatalf("let in under plan %q", g.Caller.Plan)
			}
		}
		r.set(key, auth.FieldPlan, "p")
		var refused *Exceeded
		if _, err := r.take(key, 1); !errors.As(err, &refused) {
			t.Fatalf("back under the first plan: %v", err)
		}
		r.set(key, auth.FieldPlan, "nobody configured this")
		r.forget()
		if _, err := r.take(key, 1); !errors.Is(err, auth.ErrStore) || !errors.Is(err, ErrPlan) {
			t.Fatalf("a plan that is not configured: %v", err)
		}
	})
}

func TestPlansDecideOnModelsAndSizes(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		p := plan(tokens(1000, time.Minute), tokens(500, time.Hour))
		p.DenyModels, p.DefaultTokens = []string{"secret"}, 300
		r := newRig(t, rdb, p)
		key := r.key("ann")
		denied := ask(key, 1)
		denied.Model = "secret"
		var model *ModelDenied
		if _, err := r.Reserve(t.Context(), denied); !errors.As(err, &model) || model.Model != "secret" {
			t.Errorf("denied model: %v", err)
		}
		cases := []struct {
			name     string
			ask      Ask
			reserved int64 // 0: too large
		}{
			{"prompt and max_tokens", Ask{PromptTokens: 10, MaxTokens: 20}, 30},
			{"no max_tokens: the plan's default", Ask{PromptTokens: 10, MaxTokens: -1}, 310},
			{"two answers", Ask{PromptTokens: 10, MaxTokens: 20, Answers: 2}, 50},
			{"as much as the smallest window holds", Ask{PromptTokens: 500}, 500},
			{"more than the smallest window holds", Ask{PromptTokens: 501}, 0},
			{"too many answers", Ask{PromptTokens: 10, MaxTokens: 100, Answers: 5}, 0},
		}
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				c.ask.ID, c.ask.Key, c.ask.Model = newID(), key, "mete"
				g, err := r.Reserve(t.Context(), c.ask)
				var large *TooLarge
				if c.reserved == 0 {
					if !errors.As(err, &large) || large.Limit != 500 {
						t.Fatalf("%v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if g.reserved != c.reserved || g.Tokens.Remaining != 500-c.reserved {
					t.Fatalf("reserved %d, left %+v", g.reserved, g.Tokens)
				}
				g.Refund()
				r.settled()
			})
		}
	})
}

func TestKeysOfOneOwnerShareLimitsPerPlan(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		secret := "sk-mete-" + "00000000000000000000000000000000000000aa"
		static, err := auth.NewStatic([]auth.StaticKey{{Name: "ci", Owner: "ann", Plan: "p", SHA256: sha256.Sum256([]byte(secret))}})
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, rdb, plan(requests(3, time.Hour)), func(o *Options) {
			o.Static = static
			o.Plans["q"] = plan(requests(1, time.Hour))
		})
		r.mustTake(r.key("ann"), 1)
		r.mustTake(r.key("ann"), 1)
		g := r.mustTake([]byte(secret), 1)
		if !g.Caller.Static || g.Caller.Name != "ci" || g.Requests.Remaining != 0 {
			t.Fatalf("static key: %+v, %+v left", g.Caller, g.Requests)
		}
		if _, err := r.take(r.key("ann"), 1); err == nil {
			t.Fatal("a fourth key of the owner was let in")
		}
		r.mustTake(r.key("bob"), 1)
		r.mustTake(r.keyWith("ann", "q"), 1)
		r.Reload(map[string]config.Plan{"p": plan(requests(5, time.Hour))}, nil)
		if _, err := r.take([]byte(secret), 1); !errors.Is(err, auth.ErrUnknown) {
			t.Fatalf("a static key that was taken out of the configuration: %v", err)
		}
		r.forget()
		if g := r.mustTake(r.key("ann"), 1); g.Requests.Remaining != 1 {
			t.Fatalf("after the limit was raised to 5 and a fourth request, %d are left", g.Requests.Remaining)
		}
	})
}

// calls counts round trips while run runs.
func (r *rig) calls(run func()) int64 {
	hook := &counting{}
	r.rdb.AddHook(hook)
	run()
	return hook.calls.Load()
}

func TestFirstSightOfAKeyTakesTwoCallsAndLaterOnesOne(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		quiet := func(o *Options) { o.Beat, o.Flush, o.Lease = time.Hour, time.Hour, 3*time.Hour }
		r := newRig(t, rdb, plan(requests(10, time.Hour)), quiet)
		r.mustTake(r.key("ann"), 1)
		bob, cid := r.key("bob"), r.keyWith("cid", "unlimited")
		first := r.calls(func() {
			if g := r.mustTake(bob, 1); g.Caller.Name != "test" || g.Caller.Last4 != string(bob[44:]) || g.Caller.Owner != "bob" {
				t.Errorf("caller %+v", g.Caller)
			}
		})
		if first != 2 {
			t.Errorf("first sight took %d calls", first)
		}
		if later := r.calls(func() { r.mustTake(bob, 1) }); later != 1 {
			t.Errorf("a later request took %d calls", later)
		}
		if other := r.calls(func() { r.mustTake(cid, 1) }); other != 3 {
			t.Errorf("first sight under another plan than the last took %d calls", other)
		}
		dan := r.key("dan")
		if status, err := r.Status(t.Context(), dan); err != nil || status.Caller.Name != "test" || status.Caller.Plan != "p" {
			t.Errorf("%+v, %v", status, err)
		}
	})
}
