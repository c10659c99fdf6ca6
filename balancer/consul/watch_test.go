package consul

import (
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"mete/balancer"
	"mete/balancer/consul/consultest"
)

// soon is within which a change must be taken up while Consul is well, with
// room for a busy machine; the tests log what it was.
const soon = 5 * time.Second

func TestChangesAreTakenUpAtOnce(t *testing.T) {
	t.Parallel()
	onEachAgent(t, func(r *rig) {
		r.putAll("1", "2", "3")
		l := r.watch(nil)
		l.want("the first list", "1 2 3", soon)
		var worst time.Duration
		timed := func(what, list string, change func()) {
			r.t.Helper()
			began := time.Now()
			change()
			l.want(what, list, soon)
			worst = max(worst, time.Since(began))
		}
		timed("one more", "1 2 3 4", func() { r.putAll("4") })
		timed("one critical", "1 2! 3 4", func() { r.check("2", api.HealthCritical) })
		timed("one well again", "1 2 3 4", func() { r.check("2", api.HealthPassing) })
		timed("one in maintenance", "1 2 3- 4", func() {
			if err := r.direct.Agent().EnableServiceMaintenance("3", "new driver"); err != nil {
				r.t.Fatal(err)
			}
		})
		timed("one removed", "1 2 4", func() { r.remove("3") })
		r.t.Logf("worst time until a change was published: %s", worst.Round(time.Millisecond))
		if worst > time.Second {
			r.t.Logf("that is more than a second: the machine is busy, or the watch is broken")
		}
	})
}

func TestTroubleInConsulEmptiesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		mode  consultest.Mode
		list  string // while it lasts
		fault string
	}{
		{"it answers 500", consultest.Fails, "1 2 3 4", "status 500"},
		{"it hangs", consultest.Hangs, "1 2 3 4", "consul service vllm-general"},
		{"its list is empty", consultest.Empty, "1 2 3 4", "has no instances"},
		{"its list is halved", consultest.Half, "1 2 3? 4?", ""},
		{"its answers are broken", consultest.Broken, "1 2 3 4", "unexpected EOF"},
		{"its index has gone back", consultest.Behind, "1 2 3 4", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			onEachAgent(t, func(r *rig) {
				r.putAll("1", "2", "3", "4")
				l := r.watch(func(w *Watch) { w.wait = 2 * time.Second })
				l.want("the first list", "1 2 3 4", soon)
				r.faults.Set(c.mode)
				l.want("in trouble", c.list, soon)
				if c.fault != "" {
					l.wantError(c.fault)
				}
				l.until("several queries", 20*time.Second, func() bool { return r.faults.Served() >= 2 })
				l.want("still in trouble", c.list, soon)
				r.faults.Set(consultest.Fine)
				r.putAll("5")
				began := time.Now()
				l.want("well again", "1 2 3 4 5", 20*time.Second)
				r.t.Logf("taken up %s after the trouble's end", time.Since(began).Round(time.Millisecond))
				l.until("no fault any more", soon, func() bool { return l.Status().Fault == "" })
			})
		})
	}
}

func TestAConsulThatHasLostItsCatalogueEmptiesNothing(t *testing.T) {
	t.Parallel()
	onEachAgent(t, func(r *rig) {
		r.putAll("1", "2", "3", "4")
		l := r.watch(nil)
		l.want("the first list", "1 2 3 4", soon)
		l.until("the second query waits", soon, func() bool { return r.faults.Served() >= 2 })
		r.restart()
		l.wantError("consul service vllm-general")
		l.want("restarted", "1 2 3 4", soon)
		r.putAll("1")
		l.want("one has come back", "1 2? 3? 4?", 20*time.Second)
		r.putAll("2", "3", "4")
		l.want("all have come back", "1 2 3 4", soon)
	})
}

func TestAStartWithoutConsul(t *testing.T) {
	t.Parallel()
	onEachAgent(t, func(r *rig) {
		path := filepath.Join(r.t.TempDir(), "vllm-general.json")
		r.putAll("1", "2")
		l := r.watch(func(w *Watch) { w.Keeper = balancer.NewKeeper(path) })
		l.want("the first list", "1 2", soon)
		l.stop()
		r.faults.Set(consultest.Fails)
		again := r.watch(func(w *Watch) { w.Keeper = balancer.NewKeeper(path) })
		again.want("from the disk", "1 2", soon)
		again.wantError("status 500")
		r.faults.Set(consultest.Fine)
		r.putAll("3")
		again.want("well again", "1 2 3", 20*time.Second)
		again.stop()
	})
}

func TestAReturnIsNoProofOfAChange(t *testing.T) {
	t.Parallel()
	agent := consultest.NewAgent()
	r := standIn(t, agent)
	r.putAll("1")
	l := r.watch(nil)
	l.want("the first list", "1", soon)
	before := len(agent.Queries())
	for range 5 {
		agent.Bump()
		seen := len(agent.Queries())
		l.until("asked again", soon, func() bool { return len(agent.Queries()) > seen })
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n != 1 {
		t.Errorf("published %d times, want once", l.n)
	}
	if n := len(agent.Queries()) - before; n > 12 {
		t.Errorf("%d queries for 5 writes", n)
	}
}

// TestQueriesWait wants them held back by Consul, not sent in a loop.
func TestQueriesWait(t *testing.T) {
	t.Parallel()
	agent := consultest.NewAgent()
	r := standIn(t, agent)
	r.putAll("1")
	l := r.watch(func(w *Watch) {
		w.Service = Service{Name: "vllm-general", Tag: "gpu", Datacenter: "dc2", Namespace: "ns", Partition: "part", AllowStale: true}
	})
	l.wantError("has no instances")
	r.put("2", func(s *api.AgentServiceRegistration) { s.Tags = []string{"gpu"} })
	l.want("the one with the tag", "2", soon)
	l.until("waiting", soon, func() bool { return len(agent.Queries()) >= 3 })
	q := agent.Queries()
	if q[0].Get("index") != "" || q[1].Get("index") == "" || q[1].Get("wait") != "10000ms" {
		t.Errorf("the first query %v must not wait, the second %v must", q[0], q[1])
	}
	for name, want := range map[string]string{"tag": "gpu", "dc": "dc2", "ns": "ns", "partition": "part", "passing": ""} {
		if got := q[1].Get(name); got != want {
			t.Errorf("parameter %s is %q, want %q", name, got, want)
		}
	}
	if !q[1].Has("stale") {
		t.Errorf("%v does not allow stale answers", q[1])
	}
	if n := len(q); n > 4 {
		t.Errorf("%d queries for two changes", n)
	}
}

// TestAnIndexThatGoesBackBeginsAnew wants the query after it not to wait.
func TestAnIndexThatGoesBackBeginsAnew(t *testing.T) {
	t.Parallel()
	agent := consultest.NewAgent()
	r := standIn(t, agent)
	r.putAll("1", "2", "3", "4", "5")
	l := r.watch(nil)
	l.until("the second query waits", soon, func() bool { return len(agent.Queries()) == 2 })
	agent.Restart()
	l.until("two more queries", soon, func() bool { return len(agent.Queries()) == 4 })
	q := agent.Queries()
	if q[1].Get("index") != "15" || q[2].Get("index") != "" || q[3].Get("index") != "10" {
		t.Errorf("queries %v, want the third to have no index", q)
	}
}

func TestATokenThatMayNotReadIsNamed(t *testing.T) {
	agent := consultest.NewAgent()
	r := standIn(t, agent)
	r.putAll("1")
	agent.RequireToken("s3cret")
	l := r.watch(nil)
	l.wantError("the token may not read it")
	client, err := New(Config{Address: r.url, Token: "s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	r.watch(func(w *Watch) { w.Client = client }).want("with the token", "1", soon)
}

func TestAListThatThePoolRefusesIsTold(t *testing.T) {
	r := standIn(t, consultest.NewAgent())
	r.putAll("1")
	l := r.watch(func(w *Watch) {
		w.Publish = func([]balancer.Endpoint) error { return errors.New("not so") }
	})
	l.wantError("not so")
}

func TestEndpoints(t *testing.T) {
	node := &api.Node{Address: "10.1.1.1"}
	passing := &api.HealthCheck{Name: "a", Status: api.HealthPassing}
	entry := func(s api.AgentService, checks ...*api.HealthCheck) *api.ServiceEntry {
		if s.Port == 0 && s.ID != "no port" {
			s.Port = 8000
		}
		return &api.ServiceEntry{Node: node, Service: &s, Checks: checks}
	}
	for _, c := range []struct {
		name string
		give *api.ServiceEntry
		want []balancer.Endpoint
	}{
		{"the address of the service", entry(api.AgentService{Address: "10.2.2.2"}, passing),
			[]balancer.Endpoint{{URL: "http://10.2.2.2:8000"}}},
		{"else that of the node", entry(api.AgentService{}, passing),
			[]balancer.Endpoint{{URL: "http://10.1.1.1:8000"}}},
		{"IPv6", entry(api.AgentService{Address: "fd00::1"}),
			[]balancer.Endpoint{{URL: "http://[fd00::1]:8000"}}},
		{"TLS by its meta", entry(api.AgentService{Meta: map[string]string{"scheme": "https"}}),
			[]balancer.Endpoint{{URL: "https://10.1.1.1:8000"}}},
		{"no port", entry(api.AgentService{ID: "no port"}), nil},
		{"a weight and models", entry(api.AgentService{
			Weights: api.AgentWeights{Passing: 7, Warning: 2}, Meta: map[string]string{"models": "m, n o"},
		}, passing), []balancer.Endpoint{{URL: "http://10.1.1.1:8000", Weight: 7, Models: []string{"m", "n", "o"}}}},
		{"the weight of a warning", entry(api.AgentService{Weights: api.AgentWeights{Passing: 7, Warning: 2}},
			passing, &api.HealthCheck{Name: "b", Status: api.HealthWarning}),
			[]balancer.Endpoint{{URL: "http://10.1.1.1:8000", Weight: 2}}},
		{"critical, by whose word, without its output", entry(api.AgentService{},
			passing, &api.HealthCheck{Name: "gpu", Status: api.HealthCritical, Output: "secret"}),
			[]balancer.Endpoint{{URL: "http://10.1.1.1:8000", Held: balancer.HeldCritical, Why: `consul check "gpu"`}}},
		{"maintenance of the service", entry(api.AgentService{},
			&api.HealthCheck{CheckID: "_service_maintenance:1", Status: api.HealthCritical, Notes: "new driver"}),
			[]balancer.Endpoint{{URL: "http://10.1.1.1:8000", Held: balancer.HeldMaintenance, Why: "new driver"}}},
		{"maintenance of the node", entry(api.AgentService{},
			&api.HealthCheck{CheckID: "_node_maintenance", Status: api.HealthCritical, Notes: "reboot"}),
			[]balancer.Endpoint{{URL: "http://10.1.1.1:8000", Held: balancer.HeldMaintenance, Why: "reboot"}}},
	} {
		got := endpoints([]*api.ServiceEntry{c.give})
		if len(got) != len(c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
			continue
		}
		for i := range got {
			if len(got[i].Models) == 0 {
				got[i].Models = nil
			}
			if !reflect.DeepEqual(got[i], c.want[i]) {
				t.Errorf("%s: got %+v, want %+v", c.name, got[i], c.want[i])
			}
		}
	}
	two := endpoints([]*api.ServiceEntry{entry(api.AgentService{Address: "b"}), entry(api.AgentService{Address: "a"})})
	if !slices.IsSortedFunc(two, func(a, b balancer.Endpoint) int { return compareURL(a, b) }) {
		t.Errorf("not in a lasting order: %v", two)
	}
}

func compareURL(a, b balancer.Endpoint) int {
	if a.URL < b.URL {
		return -1
	}
	return 1
}
