package limits

import (
	"context"
	"errors"
	"flag"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"mete/auth"
	"mete/auth/redistest"
	"mete/config"
)

// long runs the tests that measure at the length that their figures are for.
var long = flag.Bool("long", false, "run the measuring tests at full length")

// openFor is the client that the gateway would use.
func openFor(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	c := config.Default().Redis
	c.URL = config.Secret(url)
	rdb, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// impatient are the gateway's own times, but for a quicker recovery.
func impatient(o *Options) {
	o.Timeout, o.Retry, o.Beat = 50*time.Millisecond, 200*time.Millisecond, 500*time.Millisecond
}

// newOutageRig makes a limiter that may lose its Redis, and a key it knows.
func newOutageRig(t *testing.T, s *redistest.Server, p config.Plan) (*rig, []byte) {
	t.Helper()
	maker := newRig(t, s.Client(), p)
	key := maker.key("ann")
	maker.Close(t.Context())
	r := newRig(t, openFor(t, "redis://"+s.Addr()), p, impatient)
	eventually(t, "the key is known", func() bool {
		g, err := r.take(key, 0)
		if err != nil {
			return false
		}
		g.Settle(Usage{})
		return !g.Degraded
	})
	r.settled()
	return r, key
}

// away waits until the limiter has noticed that Redis is away.
func (r *rig) awaitUp(up bool) {
	r.t.Helper()
	eventually(r.t, "the limiter notices", func() bool { return r.up.Load() == up })
}

// ways are the ways in which Redis can fail, and what ends each.
var ways = []struct {
	name       string
	fail, mend func(*testing.T, *redistest.Server)
}{
	{"frozen", func(_ *testing.T, s *redistest.Server) { s.Pause() }, func(_ *testing.T, s *redistest.Server) { s.Continue() }},
	{"dead", func(_ *testing.T, s *redistest.Server) { s.Kill() }, func(_ *testing.T, s *redistest.Server) { s.Restart() }},
	{"out of memory", configure("maxmemory", "1"), configure("maxmemory", "0")},
	{"read-only", command("replicaof", "127.0.0.1", "1"), command("replicaof", "no", "one")},
	{"paused", command("client", "pause", "100000", "write"), command("client", "unpause")},
}

func configure(name, value string) func(*testing.T, *redistest.Server) {
	return command("config", "set", name, value)
}

func command(args ...any) func(*testing.T, *redistest.Server) {
	return func(t *testing.T, s *redistest.Server) {
		if err := s.Client().Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever happens to Redis, a caller who is known goes on under this
// gateway's share, one who is not gets an error that is ours, and afterwards
// Redis knows of everything and no slot is lost.
func TestRequestsGoOnWithoutRedis(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			s := redistest.Start(t)
			r, key := newOutageRig(t, s, plan(requests(40, time.Hour), tokens(4000, time.Hour), concurrent(30)))
			inFlight := r.mustTake(key, 10)
			way.fail(t, s)
			var grants []*Grant
			for range 10 {
				grants = append(grants, r.mustTake(key, 10))
			}
			if !grants[9].Degraded {
				t.Error("let in by a Redis that is away")
			}
			r.awaitUp(false)
			if _, err := r.take([]byte(unknownKey), 1); !errors.Is(err, auth.ErrStore) {
				t.Errorf("unknown key: %v", err)
			}
			inFlight.Settle(Usage{Prompt: 5})
			for _, g := range grants[:5] {
				g.Settle(Usage{Prompt: 2})
			}
			grants[5].Refund()
			way.mend(t, s)
			r.awaitUp(true)
			g := r.mustTake(key, 10)
			if g.Degraded {
				t.Error("decided without Redis although it is back")
			}
			g.Settle(Usage{Prompt: 10})
			r.settled()
			// 1 to get known, 1 in flight, 10 without Redis less 1 refunded, 1 after.
			if got := r.left(key, Requests); got != 40-12 {
				t.Errorf("%d requests are left, want %d", got, 40-12)
			}
			if got := r.left(key, Tokens); got != 4000-5-5*2-4*10-10 {
				t.Errorf("%d tokens are left, want %d", got, 4000-5-5*2-4*10-10)
			}
			if got := r.left(key, Concurrent); got != 30-4 {
				t.Errorf("%d slots are left, want %d", got, 30-4)
			}
			for _, g := range grants {
				g.Settle(Usage{Prompt: 1})
			}
			r.settled()
			if n := s.Client().ZCard(t.Context(), "mete:{ann}:live:p").Val(); n != 0 {
				t.Errorf("%d slots are lost", n)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if !slices.Equal(r.alarms, []Alarm{RedisAway, RedisBack}) {
				t.Errorf("alarms: %q", r.alarms)
			}
		})
	}
}

// Redis is frozen at 200 requests a second. None fails; those that find out
// lose the time-out, none after that; what was let in meets the share.
func TestAFrozenRedisFailsNoRequest(t *testing.T) {
	for _, how := range []string{"frozen", "dead"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			outage := time.Second
			if *long {
				outage = 30 * time.Second
			}
			s := redistest.Start(t)
			r, key := newOutageRig(t, s, plan(requests(1e6, time.Minute), concurrent(1e4)))
			var failed, degraded atomic.Int64
			var mu sync.Mutex
			var took, settledIn []time.Duration // before the breaker knew, and after
			var work sync.WaitGroup
			one := func() {
				knew := !r.up.Load()
				start := time.Now()
				g, err := r.take(key, 10)
				spent := time.Since(start)
				if err != nil {
					failed.Add(1)
					t.Log(err)
					return
				}
				if g.Degraded {
					degraded.Add(1)
				}
				g.Settle(Usage{Prompt: 3})
				mu.Lock()
				defer mu.Unlock()
				if knew {
					settledIn = append(settledIn, spent)
				} else {
					took = append(took, spent)
				}
			}
			pace := time.NewTicker(5 * time.Millisecond)
			defer pace.Stop()
			run := func(d time.Duration) {
				for end := time.Now().Add(d); time.Now().Before(end); {
					<-pace.C
					work.Go(one)
				}
			}
			run(200 * time.Millisecond)
			if how == "frozen" {
				s.Pause()
			} else {
				s.Kill()
			}
			run(outage)
			if how == "frozen" {
				s.Continue()
			} else {
				s.Restart()
			}
			r.awaitUp(true)
			run(200 * time.Millisecond)
			work.Wait()
			if n := failed.Load(); n != 0 {
				t.Errorf("%d requests failed", n)
			}
			if degraded.Load() == 0 {
				t.Error("no request was decided without Redis")
			}
			slices.Sort(took)
			slices.Sort(settledIn)
			at := func(d []time.Duration, p int) time.Duration { return d[min(len(d)-1, len(d)*p/100)] }
			t.Logf("asked: %d, p50 %v p99 %v max %v; once the breaker knew: %d, p50 %v p99 %v max %v; degraded %d",
				len(took), at(took, 50), at(took, 99), at(took, 100),
				len(settledIn), at(settledIn, 50), at(settledIn, 99), at(settledIn, 100), degraded.Load())
			if worst := at(settledIn, 50); worst > 5*time.Millisecond {
				t.Errorf("half of the requests lost %v although the breaker knew", worst)
			}
			r.settled()
			if n := s.Client().ZCard(t.Context(), "mete:{ann}:live:p").Val(); n != 0 {
				t.Errorf("%d slots are lost", n)
			}
		})
	}
}

// Every gateway holds its share, and all shares together are the limit. When
// Redis is back it knows of all that was let in: no burst.
func TestSharesAreTheLimitAndRecoveryIsNoBurst(t *testing.T) {
	s := redistest.Start(t)
	p := plan(requests(10, time.Hour), concurrent(11), tokens(100, time.Hour))
	var gateways []*rig
	first, key := newOutageRig(t, s, p)
	gateways = append(gateways, first)
	for range 2 {
		r := newRig(t, openFor(t, "redis://"+s.Addr()), p, impatient)
		eventually(t, "the key is known", func() bool {
			status, err := r.Status(t.Context(), key)
			return err == nil && !status.Degraded
		})
		gateways = append(gateways, r)
	}
	eventually(t, "all know of each other", func() bool {
		places := int64(0)
		for _, r := range gateways {
			if s := r.share.Load(); s.gateways == 3 {
				places += 1 << s.place
			}
		}
		return places == 7
	})
	s.Pause()
	admitted := 1 // by newOutageRig
	for _, r := range gateways {
		r.breakNow()
		for range 20 {
			g, err := r.take(key, 1)
			if err == nil {
				admitted++
				g.Settle(Usage{Prompt: 1})
			}
		}
	}
	if admitted != 10 {
		t.Errorf("three gateways let in %d of 10", admitted)
	}
	large := gateways[0]
	if _, err := large.take(key, 50); !errors.Is(err, auth.ErrStore) {
		t.Errorf("a request that only the whole limit could hold: %v", err)
	}
	s.Continue()
	for _, r := range gateways {
		r.awaitUp(true)
	}
	if g, err := gateways[0].take(key, 1); err == nil {
		t.Errorf("a burst after recovery: let in with %d left, degraded %v", g.Requests.Remaining, g.Degraded)
	}
	if got := gateways[1].left(key, Tokens); got != 100-9 {
		t.Errorf("%d tokens are left, want %d", got, 100-9)
	}
}

// breakNow makes the breaker notice that Redis is away.
func (r *rig) breakNow() {
	r.t.Helper()
	eventually(r.t, "the breaker opens", func() bool {
		_ = r.beat(context.Background())
		return !r.up.Load()
	})
}

// TestEveryRoundTripIsTold: those that went well and those that did not.
func TestEveryRoundTripIsTold(t *testing.T) {
	store := redistest.Start(t)
	var well, failed atomic.Int64
	r := newRig(t, store.Client(), config.Plan{}, func(o *Options) {
		o.Called = func(took time.Duration, err error) {
			if err != nil {
				failed.Add(1)
			} else if took > 0 {
				well.Add(1)
			}
		}
	})
	key := r.key("ann")
	r.mustTake(key, 1).Settle(Usage{Prompt: 1})
	before := well.Load() // look-up, admission; maybe the settlement
	if before < 2 {
		t.Errorf("%d round trips are told", before)
	}
	store.Kill()
	if g, err := r.take(key, 1); err != nil { // by the local share, after a batch that failed
		t.Error(err)
	} else {
		g.Settle(Usage{})
	}
	if failed.Load() == 0 {
		t.Error("the batch that failed is not told")
	}
}
