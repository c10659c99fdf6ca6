package limits

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"mete/auth/redistest"
)

// Those who wait behind a batch that times out have waited long enough: they
// fail with it instead of waiting once more.
func TestNobodyWaitsForTwoTimeOuts(t *testing.T) {
	t.Parallel() // it mostly waits
	s := redistest.Start(t)
	r, key := newOutageRig(t, s, plan())
	r.line.timeout = time.Second // read by the next batch
	r.line.until = time.Time{}
	r.rdb.(*redis.Client).Options().ReadTimeout = time.Second
	s.Pause()
	defer s.Continue()
	begin := time.Now()
	var work sync.WaitGroup
	for range 20 {
		work.Go(func() {
			if _, err := r.take(key, 1); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if d := time.Since(begin); d > 1900*time.Millisecond {
		t.Errorf("somebody waited %v for time-outs of a second", d)
	}
}

// Many callers at once share round trips.
func TestConcurrentRequestsShareRoundTrips(t *testing.T) {
	quiet := func(o *Options) { o.Beat, o.Flush, o.Lease = time.Hour, time.Hour, 3*time.Hour }
	r := newRig(t, redistest.Embedded(t), plan(requests(1e6, time.Hour)), quiet)
	key := r.key("ann")
	r.mustTake(key, 1)
	calls := r.calls(func() {
		var work sync.WaitGroup
		for range 64 {
			work.Go(func() {
				for range 10 {
					if _, err := r.take(key, 1); err != nil {
						t.Error(err)
					}
				}
			})
		}
		work.Wait()
	})
	if calls > 320 {
		t.Errorf("640 requests of 64 callers took %d round trips", calls)
	}
}

// Requests of an account that Redis has not been told everything about are not
// decided by Redis, even if it is there.
func TestRedisDecidesOnlyWhatItKnows(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := newRig(t, rdb, plan(requests(3, time.Hour)))
		key := r.key("ann")
		r.mustTake(key, 1).Settle(Usage{})
		acc := r.allAccounts()[0]
		acc.mu.Lock()
		acc.owed = make([]window, 1)
		acc.mu.Unlock()
		if g := r.mustTake(key, 1); !g.Degraded {
			t.Error("Redis decided although it does not know of everything")
		}
		eventually(t, "Redis is told", func() bool { return !acc.owes() })
		if g := r.mustTake(key, 1); g.Degraded || g.Requests.Remaining != 0 {
			t.Errorf("after Redis was told: degraded %v, %d left", g.Degraded, g.Requests.Remaining)
		}
		if _, err := r.take(key, 1); err == nil {
			t.Error("a fourth request was let in")
		}
	})
}

// A grant that ends while a call that takes its lease is out ends in Redis
// only after that call: the other way round its slot would be lost.
func TestAnEndWaitsForTheCallThatTakesALease(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		cases := []struct {
			name   string
			held   bool
			err    error // of the call
			tokens int64 // left in Redis, or as far as is owed
		}{
			{"renewed", true, nil, 97},
			{"not renewed", true, errors.New("time-out"), 97},
			{"brought in", false, nil, 97},
			{"not brought in", false, errors.New("time-out"), 90},
		}
		for i, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				r := newRig(t, rdb, plan(tokens(100, time.Hour), concurrent(5)))
				key := r.key("owner" + string(rune('a'+i)))
				g := r.mustTake(key, 10)
				acc := g.account
				acc.mu.Lock()
				g.held = c.held
				acc.mu.Unlock()
				borrowed := acc.borrow(func(*Grant) bool { return true })
				g.Settle(Usage{Prompt: 3})
				time.Sleep(5 * linger)
				if n := rdb.ZCard(t.Context(), acc.live.(string)).Val(); n != 1 {
					t.Fatalf("the lease went while a call for it was out: %d", n)
				}
				r.giveBack(acc, borrowed, c.err)
				r.settled()
				if got := r.left(key, Concurrent); got != 5 {
					t.Errorf("%d slots are left", got)
				}
				if got := r.left(key, Tokens); got != c.tokens {
					t.Errorf("%d tokens are left, want %d", got, c.tokens)
				}
			})
		}
	})
}

func TestWhatIsNotUsedIsForgottenFirst(t *testing.T) {
	g := newGenerations[int, string](3)
	for i := range 3 {
		g.put(i, "v")
	}
	for i := 3; i < 100; i++ {
		g.put(i, "v")
		if _, ok := g.get(0); !ok {
			t.Fatalf("what is used all the time was forgotten after %d others", i)
		}
		if n := len(g.young) + len(g.old); n > 6 {
			t.Fatalf("%d are remembered of at most 6", n)
		}
	}
	if _, ok := g.get(1); ok {
		t.Error("what was not used is still there")
	}
	g.drop(0)
	if _, ok := g.get(0); ok {
		t.Error("what was dropped is still there")
	}
}

func TestIdleAccountsAreSwept(t *testing.T) {
	r := newRig(t, redistest.Embedded(t), plan(requests(10, 2*time.Minute)))
	busy, idle := r.mustTake(r.key("ann"), 1), r.mustTake(r.key("bob"), 1)
	idle.Settle(Usage{})
	r.sweep()
	if n := len(r.allAccounts()); n != 2 {
		t.Fatalf("%d accounts after a sweep at once", n)
	}
	for _, acc := range r.allAccounts() {
		acc.used -= (3 * time.Minute).Microseconds()
	}
	r.sweep()
	if all := r.allAccounts(); len(all) != 1 || all[0] != busy.account {
		t.Fatalf("%d accounts after the idle one's time", len(all))
	}
	if g := r.mustTake(r.key("bob"), 1); g.account == idle.account || g.Requests.Remaining != 8 {
		t.Fatalf("after the sweep %+v is left", g.Requests)
	}
}

func TestSharesAddUpToTheLimit(t *testing.T) {
	for limit := range int64(40) {
		for n := int64(1); n < 9; n++ {
			sum := int64(0)
			for place := range n {
				sum += (&share{gateways: n, place: place}).of(limit)
			}
			if sum != limit {
				t.Fatalf("%d gateways share %d of %d", n, sum, limit)
			}
		}
	}
}

// late is a hook that holds a settlement up until an admission has passed it,
// and the next admission until the settlement is done.
type late struct {
	settle, admit          string // hashes of the scripts
	arrived, passed, ended chan struct{}
	admissions             int
}

func (h *late) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *late) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *late) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch cmd.Args()[1] {
		case h.settle:
			close(h.arrived)
			<-h.passed
			defer close(h.ended)
		case h.admit:
			if h.admissions++; h.admissions == 1 {
				defer close(h.passed)
			} else {
				<-h.ended
			}
		}
		return next(ctx, cmd)
	}
}

// A settlement that is on another connection may be overtaken by the caller's
// next request; that one is not refused for it.
func TestAnOvertakenSettlementCostsNoRefusal(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := newRig(t, rdb, plan(concurrent(1)))
		key := r.key("ann")
		g := r.mustTake(key, 1)
		hook := &late{
			settle: r.scripts.settle.sha.(string), admit: r.scripts.admit.sha.(string),
			arrived: make(chan struct{}), passed: make(chan struct{}), ended: make(chan struct{}),
		}
		rdb.AddHook(hook)
		g.Settle(Usage{})
		<-hook.arrived
		r.mustTake(key, 1)
	})
}
