package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"mete/balancer"
	"mete/bench/sim"
	"mete/config"
	"mete/proxy/meter"
)

func TestRouteSaysWhatWouldBeChosen(t *testing.T) {
	t.Parallel()
	var sent int
	r := startSim(t, sim.Config{LoRA: []string{"tuned"}, Observe: func(q *sim.Request) {
		if q.Method == "POST" {
			sent++
		}
	}})
	s := startSite(t, withPool(siteConfig(), func(p *config.Pool) { p.Replicas, p.Adapters = []string{r.URL()}, true }))
	s.eventually("the adapter is known", 20*time.Second, func() bool { return s.pools()["general"].Serves("tuned") })
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"?model=mete&tokens=5000":     {200, `"chosen": "` + r.Addr() + `"`},
		"?model=mete-thinking":        {200, `"upstream_model": "mete"`},
		"?model=tuned":                {200, `"base": "mete"`},
		"?model=nobody":               {404, `there is no model \"nobody\"; there are mete, mete-thinking, tuned`},
		"":                            {400, `"missing_model"`},
		"?model=mete&tokens=many":     {400, `tokens must be a whole number`},
		"?model=mete&tokens=-1":       {400, `tokens must be a whole number`},
		"?model=mete&model=%zz&tok=1": {400, `"missing_model"`},
	} {
		var text string
		if status := s.admin("/debug/route"+path, &text); status != want.status || !strings.Contains(text, want.text) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	var route routeView
	s.admin("/debug/route?model=mete&tokens=5000", &route)
	if route.Tokens != 5000 || route.Why == "" || len(route.Candidates) != 1 || route.Candidates[0].Terms.Uncached != 5000 || route.Candidates[0].Score < route.Candidates[0].Terms.Prompt {
		t.Errorf("%+v", route)
	}
	if sent != 0 || s.pools()["general"].Replicas()[0].InFlight() != 0 {
		t.Error("a request was sent, or a place leased")
	}
}

func TestMetricsLeaveOutWhatIsNotKnown(t *testing.T) {
	pool, err := balancer.NewPool("general", balancer.Static([]string{"http://10.0.0.5:8000"}), balancer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := newPoolMeters(meter.NewBook(prometheus.NewRegistry(), false),
		func() map[string]*balancer.Pool { return map[string]*balancer.Pool{"general": pool} })
	if faults, err := testutil.CollectAndLint(c); err != nil || len(faults) != 0 {
		t.Errorf("%v, %v", faults, err)
	}
	for name, want := range map[string]int{
		"mete_replica_in_flight": 1, "mete_replica_state": 1, "mete_pool_replicas": 8, "mete_replica_attempts_total": len(balancer.Outcomes()),
		"mete_replica_kv_usage": 0, "mete_replica_waiting": 0, "mete_replica_signal_age_seconds": 0,
	} {
		if got := testutil.CollectAndCount(c, name); got != want {
			t.Errorf("%s: %d series, want %d", name, got, want)
		}
	}
	pool.Replicas()[0].ObserveORCA([]byte("TEXT named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=3.0"))
	if n := testutil.CollectAndCount(c, "mete_replica_kv_usage", "mete_replica_waiting", "mete_replica_running"); n != 2 {
		t.Errorf("%d series of the load that was told, want 2", n)
	}
}

// A log that nobody reads must not hold a pool up.
func TestChangesThatFindNoRoomInTheLogAreCounted(t *testing.T) {
	l := changeLog{news: make(chan balancer.Change, 2)}
	for range 5 {
		l.add(balancer.Change{})
	}
	if n := l.lost.Load(); n != 3 {
		t.Errorf("%d are counted, want 3", n)
	}
	for state, want := range map[balancer.State]zerolog.Level{
		balancer.StateGone: zerolog.InfoLevel, balancer.StateReady: zerolog.InfoLevel,
		balancer.StateOpen: zerolog.WarnLevel, balancer.StateWrongModel: zerolog.WarnLevel,
	} {
		if got := levelOf(state); got != want {
			t.Errorf("%s: %v", state, got)
		}
	}
}

func TestRegistrationIsFilledIn(t *testing.T) {
	listening := func(address string) *socket {
		ln, err := listen("tests", address, &inheritance{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ln.Close() })
		return ln
	}
	r := &running{api: listening("127.0.0.1:0"), admin: listening(":0")}
	r.now.Store(&setup{cfg: siteConfig()})
	r.cfg().Consul.Register.Name = "mete"
	n, err := r.registration()
	apiPort, adminPort := portOf(r.api.Addr().String()), portOf(r.admin.Addr().String())
	if err != nil || !strings.HasPrefix(n.ID, "mete-") || !strings.HasSuffix(n.ID, "-"+apiPort) || n.CheckURL != "http://127.0.0.1:"+adminPort+"/readyz" {
		t.Errorf("%+v, %v", n, err)
	}
	r.cfg().Consul.Register = config.Register{Name: "mete", ID: "one", Port: 80, Check: config.NoCheck}
	if n, err := r.registration(); err != nil || n.ID != "one" || n.Port != 80 || n.CheckURL != "" {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestEachSourceHasAFileOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	r := &running{}
	r.now.Store(&setup{cfg: siteConfig()})
	r.cfg().StateDir = dir
	for _, view := range []sourceView{
		{Pool: "a", Source: "dns http://x:1"}, {Pool: "a", Source: "dns http://x_1"}, {Pool: "a.dns", Source: "http://x:1"},
		{Pool: "a", Source: consulName(config.Service{Service: "s", Tag: "t"})}, {Pool: "a", Source: consulName(config.Service{Service: "s", Datacenter: "t"})},
		{Pool: "a", Source: strings.Repeat("../", 60)},
	} {
		k := r.keeper(&source{view: view})
		if _, _, err := k.Take(balancer.Static([]string{"http://10.0.0.5:8000"}), time.Now()); err != nil {
			t.Errorf("%+v: %v", view, err)
		}
	}
	if files, _ := filepath.Glob(dir + "/*.json"); len(files) != 6 {
		t.Errorf("%d files for 6 sources: %v", len(files), files)
	}
}
