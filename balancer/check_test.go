package balancer

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fake is a replica whose answers a test can change.
type fake struct {
	*httptest.Server
	health  atomic.Int64 // status; 0 hangs
	models  atomic.Value // string
	metrics atomic.Value // string
	healths atomic.Int64 // requests
	scrapes atomic.Int64
	auth    atomic.Value  // string: the last Authorization
	stop    chan struct{} // ends what hangs
}

func newFake(t *testing.T) *fake {
	f := &fake{stop: make(chan struct{})}
	f.health.Store(200)
	f.models.Store(`{"object":"list","data":[{"id":"m","root":"org/m","max_model_len":32768},{"id":"tuned","parent":"m"}]}`)
	f.metrics.Store(oneEngine)
	f.auth.Store("")
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(func() { close(f.stop); f.Close() })
	return f
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	f.auth.Store(r.Header.Get("Authorization"))
	switch r.URL.Path {
	case "/health":
		f.healths.Add(1)
		if f.health.Load() == 0 {
			select {
			case <-f.stop:
			case <-r.Context().Done():
			}
			return
		}
		w.WriteHeader(int(f.health.Load()))
	case "/v1/models":
		answer(w, f.models.Load().(string))
	case "/metrics":
		f.scrapes.Add(1)
		answer(w, f.metrics.Load().(string))
	}
}

// answer sends a body, or the status that it names.
func answer(w http.ResponseWriter, body string) {
	if body == "401" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	_, _ = io.WriteString(w, body)
}

// watched is a pool whose checks run, and what it tells.
type watchedPool struct {
	*Pool
	t    *testing.T
	mu   sync.Mutex
	told map[string][]Change
	news chan struct{}
}

func watch(t *testing.T, o Options, fakes ...*fake) *watchedPool {
	var list []string
	for _, f := range fakes {
		list = append(list, f.URL)
	}
	return watchURLs(t, o, list...)
}

func watchURLs(t *testing.T, o Options, list ...string) *watchedPool {
	w := &watchedPool{t: t, told: map[string][]Change{}, news: make(chan struct{}, 1)}
	o.Interval = 100 * time.Millisecond
	o.OnChange = func(c Change) {
		w.mu.Lock()
		w.told[c.Replica.ID] = append(w.told[c.Replica.ID], c)
		w.mu.Unlock()
		select {
		case w.news <- struct{}{}:
		default:
		}
	}
	var err error
	if w.Pool, err = NewPool("general", Static(list), o); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { w.Run(ctx); close(ended) }()
	t.Cleanup(func() { stop(); <-ended })
	return w
}

// await waits until the pool is as it should be.
func (w *watchedPool) await(what string, cond func() bool) {
	w.t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-w.news:
		case <-tick.C:
		case <-deadline:
			w.t.Fatalf("%s: not so after 20 s: %+v", what, w.Snapshot())
		}
	}
}

func (w *watchedPool) awaitState(f *fake, want State, why string) {
	w.t.Helper()
	w.await("state "+string(want), func() bool {
		state, because := w.of(f).State()
		return state == want && strings.Contains(because, why)
	})
}

func (w *watchedPool) of(f *fake) *Replica {
	for _, r := range w.Replicas() {
		if r.URL == f.URL {
			return r
		}
	}
	w.t.Fatalf("%s is not in the pool", f.URL)
	return nil
}

func (w *watchedPool) view(f *fake) ReplicaView {
	for _, v := range w.Snapshot().Replicas {
		if v.ID == w.of(f).ID {
			return v
		}
	}
	return ReplicaView{}
}

func TestAFailingHealthCheckHoldsOutUntilItPasses(t *testing.T) {
	bad, good := newFake(t), newFake(t)
	p := watch(t, Options{}, bad, good)
	bad.health.Store(503)
	p.awaitState(bad, StateUnhealthy, "status 503")
	for range 10 {
		if l := mustAcquire(t, p.Pool, Need{}); l.Replica() == p.of(bad) {
			t.Fatal("the unhealthy replica was chosen")
		}
	}
	bad.health.Store(200)
	p.await("ready again", func() bool { return p.of(bad).holds.Load() == 0 })
}

// TestAHangingReplicaDelaysNoOther also wants the hanging one held out, though
// only after several silences.
func TestAHangingReplicaDelaysNoOther(t *testing.T) {
	bad, good := newFake(t), newFake(t)
	bad.health.Store(0)
	p := watch(t, Options{}, bad, good)
	p.awaitState(bad, StateUnhealthy, "no answer in time")
	p.await("the other is checked on", func() bool { return good.healths.Load() >= 3 })
	if n := bad.healths.Load(); n < failsInARow {
		t.Errorf("held out after %d silences, want %d", n, failsInARow)
	}
}

func TestARefusedConnectionHoldsOutAtOnce(t *testing.T) {
	gone, good := newFake(t), newFake(t)
	p := watch(t, Options{}, gone, good)
	p.await("checked", func() bool { return gone.healths.Load() > 0 })
	gone.CloseClientConnections()
	_ = gone.Listener.Close()
	p.awaitState(gone, StateRefused, "connection refused")
}

func TestARequestThatFindsNoConnectionHoldsOutAtOnce(t *testing.T) {
	a, b := newFake(t), newFake(t)
	p := watch(t, Options{}, a, b)
	p.await("checked", func() bool { return a.healths.Load() > 0 })
	_ = a.Listener.Close()
	l := Lease{pool: p.Pool, replica: p.of(a)}
	l.replica.take(0, 0)
	l.Done(ConnectFailed)
	if state, why := p.of(a).State(); state != StateRefused {
		t.Errorf("state %s (%s), want refused", state, why)
	}
}

func TestWhatAReplicaServes(t *testing.T) {
	for _, c := range []struct {
		name, models string
		promised     []string
		state        State
		why          string
	}{
		{"what the pool promises", `{"data":[{"id":"m"},{"id":"n"}]}`, []string{"m"}, StateReady, ""},
		{"something else", `{"data":[{"id":"x"},{"id":"y"}]}`, []string{"m", "x"}, StateWrongModel, "does not serve m but x, y"},
		{"what it does not tell", "401", []string{"m"}, StateReady, ""},
		{"nonsense", "<html>", []string{"m"}, StateReady, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t)
			f.models.Store(c.models)
			p := watch(t, Options{Models: c.promised, APIKey: "k-123"}, f)
			p.await("asked for its load", func() bool { return f.scrapes.Load() > 0 })
			p.awaitState(f, c.state, c.why)
			v := p.view(f)
			if unknown := v.Models == nil; unknown != (v.NoModels != "") {
				t.Errorf("models %v, fault %q: one of the two must say something", v.Models, v.NoModels)
			}
			if got := f.auth.Load(); got != "Bearer k-123" {
				t.Errorf("authorization %q", got)
			}
		})
	}
}

func TestARequestForAnAdapterGoesWhereItIs(t *testing.T) {
	with, without := newFake(t), newFake(t)
	without.models.Store(`{"data":[{"id":"m"}]}`)
	p := watch(t, Options{Models: []string{"m"}}, with, without)
	p.await("adapter known", func() bool { return p.Serves("tuned") && len(p.of(without).Models()) == 1 })
	for range 10 {
		if l := mustAcquire(t, p.Pool, Need{Model: "tuned"}); l.Replica() != p.of(with) {
			t.Fatal("the adapter's request went to a replica without it")
		}
	}
	if got := p.Adapters(); len(got) != 1 || got[0] != "tuned" {
		t.Errorf("adapters %v, want [tuned]", got)
	}
	if m := p.of(with).Models()[0]; m.Root != "org/m" || m.MaxModelLen != 32768 {
		t.Errorf("model %+v", m)
	}
}

func TestTheLoadIsReadAndShown(t *testing.T) {
	f, silent := newFake(t), newFake(t)
	silent.metrics.Store("python_info 1\n")
	p := watch(t, Options{}, f, silent)
	p.await("load known", func() bool { return p.view(f).Load.AgeMS != nil && p.view(silent).Load.Fault != "" })
	if l := p.view(f).Load; *l.Running != 3 || *l.Waiting != 2 || *l.KV != 0.25 || *l.Others != 5 || l.Source != "metrics" {
		t.Errorf("load %+v", l)
	}
	if l := p.view(silent).Load; l.Running != nil || l.KV != nil || l.Used || !strings.Contains(l.Fault, "none of vLLM's") {
		t.Errorf("load of the silent one: %+v", l)
	}
}

func TestAReplicaThatTellsItsLoadIsNotAskedForIt(t *testing.T) {
	f := newFake(t)
	p := watch(t, Options{}, f)
	p.await("scraped once", func() bool { return f.scrapes.Load() > 0 })
	r := p.of(f)
	ctx, stop := context.WithCancel(context.Background())
	var telling sync.WaitGroup
	telling.Go(func() {
		for ctx.Err() == nil {
			r.ObserveORCA([]byte("TEXT named_metrics.num_requests_waiting=3.0"))
			time.Sleep(time.Millisecond) // answers at their own rate
		}
	})
	checked, scraped := f.healths.Load(), f.scrapes.Load()
	p.await("checked on", func() bool { return f.healths.Load() >= checked+8 })
	stop()
	telling.Wait()
	if n := f.scrapes.Load() - scraped; n > 2 {
		t.Errorf("%d scrapes beside 8 checks, want at most those that were under way", n)
	}
	if l := p.view(f).Load; l.Source == "orca" && (*l.Waiting != 3 || l.Running != nil) {
		t.Errorf("load %+v", l)
	}
}

func TestARemovedReplicaIsLeftAlone(t *testing.T) {
	a, b := newFake(t), newFake(t)
	p := watch(t, Options{}, a, b)
	p.await("checked", func() bool { return a.healths.Load() > 0 && b.healths.Load() > 0 })
	gone := p.of(a)
	if err := p.Update(Static([]string{b.URL})); err != nil {
		t.Fatal(err)
	}
	a.Close() // waits for what is under way
	n, m := a.healths.Load(), b.healths.Load()
	p.await("the other is checked on", func() bool { return b.healths.Load() > m+3 })
	if got := a.healths.Load(); got != n {
		t.Errorf("%d checks after the removal", got-n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if told := p.told[gone.ID]; told[len(told)-1].State != StateGone {
		t.Errorf("told %v, want gone at last", told)
	}
}
