package limits

import (
	"bufio"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"mete/auth"
	"mete/auth/redistest"
)

func TestARecordThatIsTooOldDoesNotStandForTheStore(t *testing.T) {
	s := redistest.Start(t)
	r, key := newOutageRig(t, s, plan())
	s.Pause()
	defer s.Continue()
	r.breakNow()
	r.mustTake(key, 1)
	r.opt.KnownFor = -time.Second
	if _, err := r.take(key, 1); !errors.Is(err, auth.ErrStore) {
		t.Fatalf("%v", err)
	}
}

func TestAKeyExpiresWithoutRedisToo(t *testing.T) {
	s := redistest.Start(t)
	r, key := newOutageRig(t, s, plan())
	s.Pause()
	defer s.Continue()
	r.breakNow()
	for _, rec := range r.callers.young {
		rec.caller.Expires = time.Now().Add(-time.Minute)
	}
	if _, err := r.take(key, 1); !errors.Is(err, auth.ErrExpired) {
		t.Fatalf("%v", err)
	}
}

// A Redis that has forgotten its scripts is not a Redis that is away.
func TestForgottenScriptsAreSentAgain(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := newRig(t, rdb, plan(requests(100, time.Hour), concurrent(5)))
		key := r.key("ann")
		for range 3 {
			rdb.ScriptFlush(t.Context())
			g := r.mustTake(key, 1)
			if g.Degraded {
				t.Fatal("decided without Redis")
			}
			rdb.ScriptFlush(t.Context())
			g.Settle(Usage{})
			r.settled()
		}
		if got := r.left(key, Concurrent); got != 5 {
			t.Fatalf("%d slots are left", got)
		}
	})
}

// A store that comes back empty does not make keys unknown: those who are
// known go on under exact limits, others get our error, and somebody is told.
func TestAStoreThatLostItsDataIsNoReasonFor401(t *testing.T) {
	t.Parallel() // it mostly waits
	s := redistest.Start(t)
	p := plan(requests(1e6, time.Hour))
	r, key := newOutageRig(t, s, p)
	r.marker.Store(ptr(s.Client().Get(t.Context(), r.layout.Marker()).Val()))
	other := newRig(t, s.Client(), p).key("bob")
	s.RestartEmpty()
	eventually(t, "Redis is asked again", func() bool {
		g, err := r.take(key, 1)
		if err != nil {
			t.Fatalf("known key: %v", err)
		}
		g.Refund()
		return !g.Degraded
	})
	if _, err := r.take(other, 1); !errors.Is(err, auth.ErrStore) {
		t.Errorf("key that this gateway had not seen: %v", err)
	}
	if _, err := r.take([]byte(unknownKey), 1); !errors.Is(err, auth.ErrStore) {
		t.Errorf("unknown key: %v", err)
	}
	r.mu.Lock()
	if !slices.Contains(r.alarms, StoreLost) {
		t.Errorf("alarms: %q", r.alarms)
	}
	r.mu.Unlock()
	r.opt.KnownFor = -time.Second
	eventually(t, "the record is too old", func() bool {
		_, err := r.take(key, 1)
		return errors.Is(err, auth.ErrStore)
	})
	// Another store with another marker knows no more of these keys.
	if _, err := r.store.Mark(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.take([]byte(unknownKey), 1); !errors.Is(err, auth.ErrStore) {
		t.Errorf("unknown key after a new marker: %v", err)
	}
}

func ptr[T any](v T) *T { return &v }

// A command that Redis runs only after its caller gave up has no effect.
func TestACommandThatComesTooLateDoesNothing(t *testing.T) {
	s := redistest.Start(t)
	r, key := newOutageRig(t, s, plan(requests(10, time.Hour), concurrent(5)))
	s.Pause()
	g := r.mustTake(key, 1) // Redis finds its command when it goes on
	g.Refund()
	r.awaitUp(false)
	s.Continue()
	r.awaitUp(true)
	r.settled()
	if got := r.left(key, Requests); got != 9 {
		t.Errorf("%d requests are left, want 9", got)
	}
	if got := r.left(key, Concurrent); got != 5 {
		t.Errorf("%d slots are left, want 5", got)
	}
}

// A Redis that says no in whatever words is a Redis that cannot be asked.
func TestWhateverRedisSaysIsNotTheKeysFault(t *testing.T) {
	for _, says := range []string{"LOADING Redis is loading the dataset in memory", "MASTERDOWN Link with MASTER is down", "CLUSTERDOWN The cluster is down", "NOAUTH Authentication required.", "BUSY Redis is busy running a script", "ERR unknown command"} {
		t.Run(says, func(t *testing.T) {
			rdb := openFor(t, "redis://"+naysayer(t, says))
			r := newRig(t, rdb, plan(), impatient)
			if _, err := r.take([]byte(unknownKey), 1); !errors.Is(err, auth.ErrStore) {
				t.Fatalf("%v", err)
			}
		})
	}
}

// naysayer is a server that answers every command with one error.
func naysayer(t *testing.T, says string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); conns.Wait() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					if strings.HasPrefix(lines.Text(), "*") {
						_, _ = c.Write([]byte("-" + says + "\r\n"))
					}
				}
			})
		}
	}()
	return l.Addr().String()
}

// A Redis that comes back without its data learns at once of what runs.
func TestSlotsAreTakenAgainInAnEmptyRedis(t *testing.T) {
	s := redistest.Start(t)
	r, key := newOutageRig(t, s, plan(concurrent(5)))
	g := r.mustTake(key, 1)
	if g.Degraded {
		t.Skip("Redis was away before it was made to be")
	}
	s.Kill()
	r.breakNow()
	s.RestartEmpty()
	r.awaitUp(true)
	if n := s.Client().ZCard(t.Context(), "mete:{ann}:live:p").Val(); n != 1 {
		t.Errorf("%d of 1 running requests have a slot", n)
	}
	g.Settle(Usage{})
	r.settled()
	if n := s.Client().ZCard(t.Context(), "mete:{ann}:live:p").Val(); n != 0 {
		t.Errorf("%d slots are lost", n)
	}
}

func TestFewerGatewaysAreBelievedAfterAWhile(t *testing.T) {
	r := newRig(t, redistest.Embedded(t), plan(), func(o *Options) { o.Beat = time.Hour })
	beat := r.opt.Beat.Microseconds()
	steps := []struct {
		says share
		want int64
	}{
		{share{gateways: 3, seen: 10 * beat}, 3},
		{share{gateways: 1, seen: 11 * beat}, 3},
		{share{gateways: 4, seen: 12 * beat}, 4},
		{share{gateways: 2, seen: 14 * beat}, 4},
		{share{gateways: 2, seen: 15 * beat}, 2},
	}
	for i, s := range steps {
		r.learnShare(s.says)
		if got := r.share.Load().gateways; got != s.want {
			t.Errorf("step %d: %d gateways, want %d", i, got, s.want)
		}
	}
}
