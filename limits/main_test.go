package limits

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"mete/auth"
	"mete/config"
)

func TestMain(m *testing.M) {
	if isChild() {
		runChild()
		return
	}
	// go-redis sleeps a second between dials and ends that goroutine by itself.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// rig is a limiter with a key store beside it.
type rig struct {
	*Limiter
	t     testing.TB
	store *auth.Store
	rdb   redis.UniversalClient

	mu     sync.Mutex
	alarms []Alarm
}

func testPeppers(t testing.TB) *auth.Peppers {
	t.Helper()
	peppers, err := auth.NewPeppers(auth.Pepper{Version: 1, Secret: []byte("a pepper for tests only, 32 bytes")})
	if err != nil {
		t.Fatal(err)
	}
	return peppers
}

// plan makes a plan of limits.
func plan(limits ...config.Limit) config.Plan {
	return config.Plan{Limits: limits, DefaultTokens: 1024}
}

func requests(n int64, per time.Duration) config.Limit { return config.Limit{Requests: n, Per: per} }
func tokens(n int64, per time.Duration) config.Limit   { return config.Limit{Tokens: n, Per: per} }
func concurrent(n int64) config.Limit                  { return config.Limit{Concurrent: n} }

// testTimeout is generous: a busy machine must not look like a Redis that is
// away. Tests of Redis being away say so.
const testTimeout = 20 * time.Second

// newRig makes a limiter on rdb with plan "p" and starts from an own store.
func newRig(t testing.TB, rdb redis.UniversalClient, p config.Plan, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, rdb: rdb, store: auth.NewStore(rdb, "mete", testPeppers(t))}
	o := Options{
		Service: "mete", Redis: rdb, Peppers: testPeppers(t),
		Plans:   map[string]config.Plan{"p": p, "unlimited": plan()},
		Timeout: testTimeout, Alarm: r.alarm,
	}
	for _, c := range change {
		c(&o)
	}
	if o.Timeout >= testTimeout { // else Redis may be away already
		marker, err := r.store.Mark(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		o.Marker = marker
	}
	r.Limiter = New(o)
	t.Cleanup(func() { r.Close(context.Background()) })
	return r
}

func (r *rig) alarm(a Alarm, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alarms = append(r.alarms, a)
}

// key makes a key of owner with plan "p".
func (r *rig) key(owner string) []byte { return r.keyWith(owner, "p") }

func (r *rig) keyWith(owner, plan string) []byte {
	r.t.Helper()
	plaintext, _, err := r.store.Create(r.t.Context(), auth.Request{Name: "test", Owner: owner, Plan: plan, Origin: auth.FromCLI})
	if err != nil {
		r.t.Fatal(err)
	}
	return []byte(plaintext)
}

// take reserves one request of that many tokens in all.
func (r *rig) take(key []byte, tokens int64) (*Grant, error) {
	return r.Reserve(context.Background(), ask(key, tokens))
}

func (r *rig) mustTake(key []byte, tokens int64) *Grant {
	r.t.Helper()
	g, err := r.take(key, tokens)
	if err != nil {
		r.t.Fatalf("refused: %v", err)
	}
	return g
}

func ask(key []byte, tokens int64) Ask {
	return Ask{ID: newID(), Key: key, Model: "mete", PromptTokens: tokens, MaxTokens: 0}
}

func newID() (id ID) {
	_, _ = rand.Read(id[:])
	return id
}

// eventually waits until what holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("it never came to be that %s", what)
}

// settled waits until Redis knows of all settlements.
func (r *rig) settled() {
	r.t.Helper()
	eventually(r.t, "all settlements are done", func() bool {
		r.line.mu.Lock()
		defer r.line.mu.Unlock()
		return len(r.line.ends) == 0 && r.line.flying == 0
	})
}
