package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"mete/bench/sim"
	"mete/config"
)

// system is everything there is: two gateways, a real Redis, three pools of
// simulated replicas, and callers of every kind. Dashboards, alerts and the
// documented metrics are held against it.
//
//	model         pool     replicas
//	mete          general  two good ones, in the configuration
//	mete-thinking general
//	shaky         shaky    two, of which the test makes one fail
//	gone          gone     one that nobody listens on
//	named         named    one, found by DNS
type system struct {
	*fleet
	shaky       []*sim.Replica
	open, tight string // keys: without limits; of one request a minute
}

// startSystem starts it. change may alter the configuration of both gateways.
func startSystem(t *testing.T, change func(*config.Config)) *system {
	t.Helper()
	s := &system{}
	s.fleet = startFleet(t, 2, func(cfg *config.Config) {
		cfg.Log.Level = "info"
		for range 2 {
			s.shaky = append(s.shaky, startSim(t, sim.Config{Models: []string{"shaky"}, OutputTokens: 4}))
		}
		s.addPool(cfg, "shaky", func(p *config.Pool) { p.Replicas = []string{s.shaky[0].URL(), s.shaky[1].URL()} })
		s.addPool(cfg, "gone", func(p *config.Pool) { p.Replicas = []string{"http://" + deadAddress(t)} })
		named := startSim(t, sim.Config{Models: []string{"named"}})
		s.addPool(cfg, "named", func(p *config.Pool) { p.DNS = []string{"http://localhost:" + portOf(named.Addr())} })
		plan := config.DefaultPlan()
		plan.Limits = []config.Limit{{Requests: 1, Per: time.Minute}}
		cfg.Plans["tight"] = plan
		if change != nil {
			change(cfg)
		}
	})
	s.open, _ = s.createKey("ann", "open")
	s.tight, _ = s.createKey("bob", "tight")
	return s
}

func (s *system) addPool(cfg *config.Config, name string, change func(*config.Pool)) {
	pool := config.DefaultPool()
	change(&pool)
	cfg.Pools[name] = pool
	cfg.Models = append(cfg.Models, config.Model{ID: name, Pool: name, Created: cfg.Models[0].Created, ContextWindow: 32768, Root: name})
}

// deadAddress is one that nobody listens on.
func deadAddress(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

// ask sends one request to a gateway and reads its answer, whatever becomes of
// it. Header are names and values.
func (s *system) ask(gateway int, method, path, key, body string, header ...string) (status int, text string) {
	s.Helper()
	request, err := http.NewRequest(method, "http://"+s.gateways[gateway].api.Addr().String()+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := s.client.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	b, _ := io.ReadAll(response.Body) // a cut answer is part of the traffic
	return response.StatusCode, string(b)
}

const chatPath = "/v1/chat/completions"

func chatOf(model string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hello"}]}`, model)
}

func streamOf(model string) string {
	return fmt.Sprintf(`{"model":%q,"stream":true,"stream_options":{"include_usage":true},"max_tokens":16,"messages":[{"role":"user","content":"hello"}]}`, model)
}

// faultOf asks for a stream that goes wrong as the fault says.
func faultOf(model, fault string) string {
	return fmt.Sprintf(`{"model":%q,"stream":true,"sim_fault":%q,"messages":[{"role":"user","content":"hello"}]}`, model, fault)
}

// want fails the test unless a request ends with this status.
func (s *system) want(status, gateway int, method, path, key, body string, header ...string) {
	s.Helper()
	if got, text := s.ask(gateway, method, path, key, body, header...); got != status {
		s.Errorf("%s %s of gateway %d: %d %.300s, want %d", method, path, gateway, got, text, status)
	}
}

// mixedTraffic has both gateways meet everything that can happen to a request
// while Redis is there.
func (s *system) mixedTraffic() {
	s.Helper()
	for gateway := range s.gateways {
		s.successes(gateway)
		s.refusals(gateway)
		s.replicaFaults(gateway)
		s.leave(gateway)
	}
}

func (s *system) successes(gateway int) {
	for range 5 {
		s.want(200, gateway, "POST", chatPath, s.open, chatOf("mete"))
		s.want(200, gateway, "POST", chatPath, s.open, streamOf("mete"))
	}
	s.want(200, gateway, "POST", chatPath, s.open, streamOf("mete-thinking"))
	s.want(200, gateway, "POST", chatPath, s.open, faultOf("mete", "slow; pause=10ms")) // so that tokens come one by one
	s.want(200, gateway, "POST", chatPath, s.open, chatOf("named"))
	s.want(200, gateway, "POST", "/v1/completions", s.open, `{"model":"mete","prompt":"hello"}`)
	s.want(200, gateway, "GET", "/v1/models", "", "")
	s.want(200, gateway, "GET", "/v1/models/mete", "", "")
	s.want(200, gateway, "GET", "/v1/auth/key", s.open, "")
	s.want(200, gateway, "GET", "/health", "", "")
}

func (s *system) refusals(gateway int) {
	s.want(401, gateway, "POST", chatPath, "", chatOf("mete"))
	s.want(401, gateway, "POST", chatPath, "sk-mete-nonsense", chatOf("mete"))
	s.want(401, gateway, "POST", chatPath, "sk-mete-ffffffffffffffffffffffffffffffffffffffff", chatOf("mete"))
	s.want(400, gateway, "POST", chatPath, s.open, `{"model":`)
	s.want(404, gateway, "POST", chatPath, s.open, chatOf("nobody"))
	s.want(404, gateway, "GET", "/nowhere", s.open, "")
	s.want(405, gateway, "GET", chatPath, s.open, "")
	s.want(503, gateway, "POST", chatPath, s.open, chatOf("gone"))
	if gateway == 0 {
		s.want(200, gateway, "POST", chatPath, s.tight, chatOf("mete"))
	}
	s.want(429, gateway, "POST", chatPath, s.tight, chatOf("mete"))
	s.want(429, gateway, "POST", chatPath, s.tight, chatOf("mete"))
}

// replicaFaults has a replica answer with an error, so that another is tried;
// both fail; and a stream cut in the middle.
func (s *system) replicaFaults(gateway int) {
	fail := func(replica *sim.Replica, fault sim.Fault) {
		if err := replica.SetFault(fault); err != nil {
			s.Fatal(err)
		}
	}
	s.eventually(func() bool { return s.gateways[gateway].pools()["shaky"].Snapshot().Replicas[0].Load.Used })
	fail(s.shaky[0], sim.Fault{Kind: sim.Status, Code: 500})
	for range 3 { // one of them comes to that replica first
		s.want(200, gateway, "POST", chatPath, s.open, streamOf("shaky"))
	}
	fail(s.shaky[1], sim.Fault{Kind: sim.Status, Code: 500})
	s.want(500, gateway, "POST", chatPath, s.open, chatOf("shaky"))
	for _, r := range s.shaky {
		fail(r, sim.Fault{})
	}
	s.want(200, gateway, "POST", chatPath, s.open, faultOf("mete", "cut; at=700"))
}

// leave has a client go away in the middle of a stream.
func (s *system) leave(gateway int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "POST", "http://"+s.gateways[gateway].api.Addr().String()+chatPath, strings.NewReader(faultOf("mete", "hang; where=event; after=3")))
	if err != nil {
		s.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.open)
	request.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	cancel()
	_ = response.Body.Close()
	s.eventually(func() bool { return s.gateways[gateway].gateway.InFlight() == 0 })
}

func (s *system) eventually(ok func() bool) {
	s.Helper()
	waitUntil(s.T, ok)
}

// scrape reads a gateway's metrics as Prometheus would.
func (s *system) scrape(gateway int) map[string]*dto.MetricFamily {
	s.Helper()
	response, err := s.client.Get("http://" + s.gateways[gateway].admin.Addr().String() + "/metrics")
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return families
}
