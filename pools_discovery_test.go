package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"mete/balancer/consul/consultest"
	"mete/bench/sim"
	"mete/config"
)

// catalogue is a Consul that the test may spoil.
type catalogue struct {
	t      *testing.T
	agent  *consultest.Agent
	faults *consultest.Faults
	url    string
}

func startCatalogue(t *testing.T) *catalogue {
	t.Helper()
	c := &catalogue{t: t, agent: consultest.NewAgent()}
	c.faults = consultest.NewFaults(c.agent)
	front := httptest.NewServer(c.faults)
	t.Cleanup(func() { front.CloseClientConnections(); front.Close() })
	c.url = front.URL
	return c
}

// put registers replicas as instances of vllm-general.
func (c *catalogue) put(replicas ...*sim.Replica) {
	c.t.Helper()
	for _, r := range replicas {
		c.call("PUT", "/v1/agent/service/register", fmt.Sprintf(
			`{"ID":%q,"Name":"vllm-general","Address":"127.0.0.1","Port":%s}`, r.Addr(), portOf(r.Addr())))
	}
}

// call asks the agent itself, without its faults, and returns the answer.
func (c *catalogue) call(method, path, body string) string {
	c.t.Helper()
	record := httptest.NewRecorder()
	c.agent.ServeHTTP(record, httptest.NewRequest(method, path, strings.NewReader(body)))
	if record.Code != http.StatusOK {
		c.t.Fatalf("%s %s: %d %s", method, path, record.Code, record.Body)
	}
	return record.Body.String()
}

func (c *catalogue) config() *config.Config {
	cfg := withPool(siteConfig(), func(p *config.Pool) { p.Consul = []config.Service{{Service: "vllm-general"}} })
	cfg.Consul.Address = c.url
	return cfg
}

func startSims(t *testing.T, n int) (replicas []*sim.Replica) {
	for range n {
		replicas = append(replicas, startSim(t, sim.Config{OutputTokens: 4}))
	}
	return replicas
}

// TestNoRequestFailsWhateverConsulDoes asks a whole gateway without a break
// while its Consul goes through every kind of trouble.
func TestNoRequestFailsWhateverConsulDoes(t *testing.T) {
	t.Parallel()
	c, replicas := startCatalogue(t), startSims(t, 6)
	c.put(replicas[:4]...)
	s := startSite(t, c.config())
	l := s.load(50, func(i int) string { return askBody(i, i%2 == 0) })
	known := func(n int) func() bool { return func() bool { return len(s.urls()) == n } }

	c.put(replicas[4])
	healthy := s.eventually("a change while Consul is well", 20*time.Second, known(5))
	for _, m := range []struct {
		name string
		mode consultest.Mode
	}{
		{"500", consultest.Fails}, {"empty", consultest.Empty}, {"half", consultest.Half},
		{"index back", consultest.Behind}, {"broken", consultest.Broken}, {"hangs", consultest.Hangs},
	} {
		c.faults.Set(m.mode)
		s.eventually(m.name, 40*time.Second, func() bool { return c.faults.Served() >= 2 })
		if len(s.urls()) != 5 {
			t.Errorf("%s: %d replicas are known, want 5", m.name, len(s.urls()))
		}
	}
	c.agent.Restart() // it has forgotten everything
	c.faults.Set(consultest.Fine)
	c.put(replicas...)
	returned := s.eventually("a change once Consul is well again", 40*time.Second, known(6))
	l.end()
	t.Logf("%d requests, %d failed; a change was taken up after %v while Consul was well, after %v when it had come back", l.sent, l.failed.Load(), healthy, returned)
	if l.failed.Load() != 0 || int(l.whole.Load()) != l.sent {
		t.Errorf("%d of %d failed: %v", l.failed.Load(), l.sent, l.kinds)
	}
	if returned > 15*time.Second+2*time.Second { // a slow machine's allowance
		t.Errorf("taken up %v after Consul had come back", returned)
	}
}

// TestAReplicaThatLeavesConsulLeavesNoTrace deregisters one under load.
func TestAReplicaThatLeavesConsulLeavesNoTrace(t *testing.T) {
	t.Parallel()
	c, replicas := startCatalogue(t), startSims(t, 3)
	c.put(replicas...)
	s := startSite(t, c.config())
	l := s.load(50, func(i int) string { return askBody(i, false) })
	gone := replicas[2].Addr()
	series := func() bool {
		var page string
		s.admin("/metrics", &page)
		return strings.Contains(page, `mete_replica_in_flight{pool="general",replica="`+gone+`"}`)
	}
	s.eventually("the replica's metrics", 20*time.Second, series)
	c.call("PUT", "/v1/agent/service/deregister/"+gone, "")
	s.eventually("the replica has left", 20*time.Second, func() bool { return !slices.Contains(s.urls(), "http://"+gone) })
	s.eventually("its metrics have, too", 20*time.Second, func() bool { return !series() })
	s.eventually("its leaving is logged", 20*time.Second, func() bool {
		return strings.Contains(s.log.String(), `"replica":"`+gone+`","state":"gone"`)
	})
	l.end()
	if l.failed.Load() != 0 {
		t.Errorf("%d of %d failed: %v", l.failed.Load(), l.sent, l.kinds)
	}
}

// TestAStartWithoutConsulUsesWhatWasKept starts a gateway, then another one on
// its folder while no Consul is there.
func TestAStartWithoutConsulUsesWhatWasKept(t *testing.T) {
	t.Parallel()
	c, replicas := startCatalogue(t), startSims(t, 2)
	c.put(replicas...)
	cfg := c.config()
	cfg.StateDir = t.TempDir() + "/made/if/need/be"
	first := startSite(t, cfg)
	if a := first.ask(helloBody); a.status != 200 {
		t.Fatalf("%+v", a)
	}
	first.eventually("the list is on disk", 20*time.Second, func() bool {
		files, _ := os.ReadDir(cfg.StateDir)
		return len(files) == 1 && strings.HasSuffix(files[0].Name(), ".json")
	})
	first.stop()
	cfg.Consul.Address = "http://127.0.0.1:1"
	began := time.Now()
	second := startSite(t, cfg)
	took := time.Since(began)
	var ready string
	if a := second.ask(helloBody); a.status != 200 || second.running == nil || second.admin("/readyz", &ready) != 200 {
		t.Errorf("%+v, ready: %s", a, ready)
	}
	var view poolsView
	second.eventually("the trouble is shown", 20*time.Second, func() bool {
		second.admin("/debug/pools", &view)
		return view.Sources[0].Fault != ""
	})
	if view.Sources[0].Replicas != 2 || len(view.Pools[0].Replicas) != 2 {
		t.Errorf("%+v", view)
	}
	t.Logf("started in %v without Consul", took)
	if took > firstLists {
		t.Errorf("the start waited %v, though replicas were known", took)
	}
}

// TestAStartWithoutConsulAndWithoutAnythingKeptSaysSo comes up, is not ready,
// and serves once Consul is there.
func TestAStartWithoutConsulAndWithoutAnythingKeptSaysSo(t *testing.T) {
	t.Parallel()
	c, replicas := startCatalogue(t), startSims(t, 1)
	c.faults.Set(consultest.Fails)
	c.put(replicas...)
	s := startSite(t, c.config())
	var ready string
	if status := s.admin("/readyz", &ready); status != 503 || ready != "no pool has replicas yet\n" {
		t.Errorf("%d %s", status, ready)
	}
	if !strings.Contains(s.log.String(), `"pools":"general"`) || !strings.Contains(s.log.String(), "going on without replicas") {
		t.Error("the log does not say so")
	}
	if a := s.ask(helloBody); a.status != 503 || !strings.Contains(a.body, `"no_replica"`) {
		t.Errorf("%+v", a)
	}
	c.faults.Set(consultest.Fine)
	s.eventually("ready", 40*time.Second, func() bool { return s.admin("/readyz", &ready) == 200 })
	if a := s.ask(helloBody); a.status != 200 {
		t.Errorf("%+v", a)
	}
}

// TestTheGatewayIsInConsulWhileItShouldBeAsked registers, and is gone from
// Consul while it still answers.
func TestTheGatewayIsInConsulWhileItShouldBeAsked(t *testing.T) {
	t.Parallel()
	c, replicas := startCatalogue(t), startSims(t, 1)
	c.put(replicas...)
	cfg := c.config()
	cfg.Consul.Register.Name = "mete"
	cfg.Consul.Register.Tags = []string{"v1"}
	cfg.Shutdown.LameDuck = 3 * time.Second
	s := startSite(t, cfg)
	registered := func() bool {
		return slices.ContainsFunc(c.agent.Services(), func(id string) bool { return strings.HasPrefix(id, "mete-") })
	}
	s.eventually("registered", 20*time.Second, registered)
	entry := c.call("GET", "/v1/health/service/mete?tag=v1", "")
	if !strings.Contains(entry, `"Port":`+portOf(s.api.Addr().String())) {
		t.Error(entry)
	}
	stopped := make(chan struct{})
	go func() { s.stop(); close(stopped) }()
	s.eventually("deregistered", 20*time.Second, func() bool { return !registered() })
	if a := s.ask(helloBody); a.status != 200 {
		t.Errorf("in its lame-duck time: %+v", a)
	}
	<-stopped
}

func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// TestDNSNamesAreReplicas resolves a name that every machine has.
func TestDNSNamesAreReplicas(t *testing.T) {
	t.Parallel()
	r := startSim(t, sim.Config{})
	cfg := withPool(siteConfig(), func(p *config.Pool) { p.DNS = []string{"http://localhost:" + portOf(r.Addr())} })
	s := startSite(t, cfg)
	for range 10 { // ::1 may be one, too, where nobody listens
		if a := s.ask(helloBody); a.status != 200 || a.replica != r.Addr() {
			t.Fatalf("%+v", a)
		}
	}
	var view poolsView
	s.admin("/debug/pools", &view)
	if view.Sources[0].Source != "dns "+cfg.Pools["general"].DNS[0] || view.Sources[0].Replicas == 0 || view.Sources[0].Fault != "" {
		t.Errorf("%+v", view.Sources)
	}
}
