package consul

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"go.uber.org/goleak"

	"mete/balancer"
	"mete/balancer/consul/consultest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is an agent, the layer of faults before it, and a client of the tests'
// own that goes around the layer.
type rig struct {
	t       *testing.T
	faults  *consultest.Faults
	url     string
	direct  *api.Client
	standIn *consultest.Agent // nil for a real agent
	restart func()            // with its catalogue lost
}

// onEachAgent runs the test on the stand-in, and on a real Consul if there is
// one.
func onEachAgent(t *testing.T, test func(r *rig)) {
	t.Run("stand-in", func(t *testing.T) {
		t.Parallel()
		agent := consultest.NewAgent()
		backend := httptest.NewServer(agent)
		t.Cleanup(backend.Close)
		test(newRig(t, &rig{standIn: agent, restart: agent.Restart}, backend.URL))
	})
	t.Run("consul", func(t *testing.T) {
		if _, err := exec.LookPath("consul"); err != nil {
			t.Skip("no consul on the PATH: ran on the stand-in only")
		}
		t.Parallel()
		port := freePort(t)
		stop := startConsul(t, port)
		t.Cleanup(func() { stop() })
		r := &rig{restart: func() { stop(); stop = startConsul(t, port) }}
		test(newRig(t, r, fmt.Sprintf("http://127.0.0.1:%d", port)))
	})
}

func newRig(t *testing.T, r *rig, backend string) *rig {
	t.Helper()
	at, err := url.Parse(backend)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(at)
	proxy.ErrorLog = log.New(io.Discard, "", 0) // it tells of every query that is cut
	r.t, r.faults = t, consultest.NewFaults(proxy)
	front := httptest.NewServer(r.faults)
	t.Cleanup(front.Close)
	r.url = front.URL
	if r.direct, err = api.NewClient(&api.Config{Address: backend}); err != nil {
		t.Fatal(err)
	}
	return r
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// startConsul starts a development agent and waits until it has a leader.
func startConsul(t *testing.T, port int) (stop func()) {
	t.Helper()
	ports := fmt.Sprintf("ports = { http = %d, dns = -1, grpc = -1, grpc_tls = -1, serf_wan = -1, serf_lan = %d, server = %d }",
		port, freePort(t), freePort(t))
	cmd := exec.Command("consul", "agent", "-dev", "-bind=127.0.0.1", "-log-level=error", "-hcl", ports,
		"-data-dir", filepath.Join(t.TempDir(), "data"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	client, err := api.NewClient(&api.Config{Address: fmt.Sprintf("127.0.0.1:%d", port)})
	if err != nil {
		t.Fatal(err)
	}
	for range 300 {
		if leader, err := client.Status().Leader(); err == nil && leader != "" {
			return stop
		}
		time.Sleep(100 * time.Millisecond) // another process: there is no event to wait for
	}
	stop()
	t.Fatal("consul has no leader after 30 s")
	return nil
}

// put registers an instance of vllm-general with a check in the given state.
func (r *rig) put(id string, change func(*api.AgentServiceRegistration)) {
	r.t.Helper()
	s := &api.AgentServiceRegistration{
		ID: id, Name: "vllm-general", Address: "10.0.0." + id, Port: 8000,
		Check: &api.AgentServiceCheck{Name: "vllm health", TTL: "1h", Status: api.HealthPassing},
	}
	if change != nil {
		change(s)
	}
	if err := r.direct.Agent().ServiceRegister(s); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) putAll(ids ...string) {
	r.t.Helper()
	for _, id := range ids {
		r.put(id, nil)
	}
}

func (r *rig) remove(ids ...string) {
	r.t.Helper()
	for _, id := range ids {
		if err := r.direct.Agent().ServiceDeregister(id); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) check(id, status string) {
	r.t.Helper()
	if err := r.direct.Agent().UpdateTTL("service:"+id, "secret output", status); err != nil {
		r.t.Fatal(err)
	}
}

// listener is what a watch publishes to.
type listener struct {
	*Watch
	t    *testing.T
	mu   sync.Mutex
	list []balancer.Endpoint
	n    int // lists published
	errs []string
	news chan struct{}
	stop func() // ends the watch and waits for it
}

func (r *rig) watch(change func(*Watch)) *listener {
	r.t.Helper()
	client, err := New(Config{Address: r.url})
	if err != nil {
		r.t.Fatal(err)
	}
	l := &listener{t: r.t, news: make(chan struct{}, 1)}
	l.Watch = &Watch{Client: client, Service: Service{Name: "vllm-general"}, Publish: l.publish, OnError: l.fault}
	if change != nil {
		change(l.Watch)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { l.Run(ctx); close(ended) }()
	l.stop = func() { cancel(); <-ended }
	r.t.Cleanup(l.stop)
	return l
}

func (l *listener) publish(list []balancer.Endpoint) error {
	l.mu.Lock()
	l.list, l.n = list, l.n+1
	l.mu.Unlock()
	l.tick()
	return nil
}

func (l *listener) fault(err error) {
	l.mu.Lock()
	l.errs = append(l.errs, fmt.Sprint(err))
	l.mu.Unlock()
	l.tick()
}

func (l *listener) tick() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// says writes the present list as "1 2?", by the last number of each address;
// ? is a suspect, ! critical, - in maintenance.
func (l *listener) says() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	marks := map[balancer.Held]string{
		balancer.HeldSuspect: "?", balancer.HeldCritical: "!", balancer.HeldMaintenance: "-",
	}
	var names []string
	for _, e := range l.list {
		name := strings.TrimPrefix(strings.TrimSuffix(e.URL, ":8000"), "http://10.0.0.")
		names = append(names, name+marks[e.Held])
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// want waits until the list is as it should be, at most so long.
func (l *listener) want(what, list string, within time.Duration) {
	l.t.Helper()
	l.until(what+": want "+list, within, func() bool { return l.says() == list })
}

func (l *listener) wantError(part string) {
	l.t.Helper()
	l.until("want the error "+part, 30*time.Second, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.ContainsFunc(l.errs, func(e string) bool { return strings.Contains(e, part) })
	})
}

func (l *listener) until(what string, within time.Duration, cond func() bool) {
	l.t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-l.news:
		case <-tick.C:
		case <-deadline:
			l.t.Fatalf("%s: after %s there is %q, errors %q", what, within, l.says(), l.errs)
		}
	}
}
