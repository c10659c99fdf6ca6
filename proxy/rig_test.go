package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"mete/auth"
	"mete/balancer"
	"mete/bench/sim"
	"mete/config"
	"mete/limits"
	"mete/proxy/meter"
	"mete/proxy/trace"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"), // sleeps a second, then ends
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),             // one per process, for ever
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),          // sleeps, then ends
	)
}

// testKey is a static key of the plan "all".
const testKey = "sk-mete-0123456789abcdef0123456789abcdef01234567"

// rig is a gateway on a socket, in front of simulated replicas.
type rig struct {
	*testing.T
	gateway  *Gateway
	limiter  *limits.Limiter
	url      string
	addr     string
	replicas []*sim.Replica
	log      *logBuffer
	registry *prometheus.Registry
	client   *http.Client

	balancing   balancer.Options
	deviceToken deviceRoute
	tracer      *trace.Tracer
}

// rigOption changes what a rig is made of.
type rigOption func(*config.Config, *rig)

// withReplicas puts n simulated replicas, or more, behind the gateway.
func withReplicas(n int, c sim.Config) rigOption {
	return func(_ *config.Config, r *rig) {
		if c.Models == nil {
			c.Models = []string{"mete", "sim"}
		}
		for range n {
			replica, err := sim.Start(c)
			if err != nil {
				r.Fatal(err)
			}
			r.Cleanup(func() { _ = replica.Close() })
			r.replicas = append(r.replicas, replica)
		}
	}
}

func withConfig(change func(*config.Config)) rigOption {
	return func(cfg *config.Config, _ *rig) { change(cfg) }
}

// withUpstream puts a server that is no simulated replica behind the gateway.
func withUpstream(url string) rigOption {
	return withConfig(func(cfg *config.Config) {
		pool := config.DefaultPool()
		pool.Replicas = []string{url}
		cfg.Pools["general"] = pool
	})
}

// withScript answers every request with exact bytes.
func withScript(script func(req *sim.Request, c net.Conn) error) rigOption {
	return withReplicas(1, sim.Config{Script: script})
}

func newRig(t *testing.T, options ...rigOption) *rig {
	t.Helper()
	r := &rig{T: t, log: &logBuffer{}, registry: prometheus.NewRegistry()}
	r.balancing.Faults = -1 // the replicas of these tests fail again and again, and are asked again
	cfg := rigConfig()
	for _, o := range options {
		o(cfg, r)
	}
	if len(r.replicas) == 0 && len(cfg.Pools["general"].Replicas) == 0 {
		withReplicas(1, sim.Config{})(cfg, r)
	}
	pool := config.DefaultPool()
	if have, ok := cfg.Pools["general"]; ok {
		pool = have
	}
	for _, replica := range r.replicas {
		pool.Replicas = append(pool.Replicas, replica.URL())
	}
	cfg.Pools["general"] = pool
	r.start(cfg)
	return r
}

func rigConfig() *config.Config {
	cfg := config.Default()
	cfg.Timeouts.Connect = 5 * time.Second // a busy machine is not a dead replica
	cfg.Models = []config.Model{
		{ID: "mete", Pool: "general", Created: time.Unix(1768435200, 0), ContextWindow: 32768, Root: "org/model"},
		{ID: "mete-thinking", Pool: "general", Created: time.Unix(1768435200, 0), ContextWindow: 131072, Root: "mete-thinking", UpstreamModel: "sim",
			Request: []config.Member{{Name: "chat_template_kwargs", Value: json.RawMessage(`{"enable_thinking":true}`)}}},
	}
	cfg.Plans["all"] = config.DefaultPlan()
	cfg.Keys = []config.Key{{Name: "test", Owner: "test", Plan: "all", SHA256: sha256.Sum256([]byte(testKey))}}
	return cfg
}

func (r *rig) start(cfg *config.Config) {
	r.Helper()
	store := r.openStore(cfg)
	static, err := auth.NewStatic([]auth.StaticKey{{Name: "test", Owner: "test", Plan: "all", SHA256: cfg.Keys[0].SHA256}})
	if err != nil {
		r.Fatal(err)
	}
	r.limiter = limits.New(limits.Options{Service: cfg.Service, Redis: store, Static: static, Plans: cfg.Plans})
	r.Cleanup(func() { r.limiter.Close(context.Background()) })
	pool, err := balancer.NewPool("general", balancer.Static(cfg.Pools["general"].Replicas), r.balancing)
	if err != nil {
		r.Fatal(err)
	}
	r.gateway, err = New(cfg, Options{
		Limiter: r.limiter, Pools: map[string]*balancer.Pool{"general": pool},
		Metrics: meter.NewBook(r.registry, false), Log: zerolog.New(r.log), Tracer: r.tracer, DeviceToken: r.deviceToken,
	})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(r.gateway.Close)
	r.serve()
}

func (r *rig) openStore(cfg *config.Config) redis.UniversalClient {
	store, err := limits.Open(cfg.Redis)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = store.Close() })
	return store
}

func (r *rig) serve() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	r.addr = ln.Addr().String()
	r.url = "http://" + r.addr
	done := make(chan error, 1)
	go func() { done <- r.gateway.Serve(ln) }()
	transport := &http.Transport{DisableCompression: true}
	r.client = &http.Client{Transport: transport}
	r.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := r.gateway.Shutdown(ctx); err != nil {
			r.Error("shutdown:", err)
		}
		if err := <-done; err != nil {
			r.Error("serve:", err)
		}
	})
}

// post sends a body to a path with the test key.
func (r *rig) post(path, body string, header ...string) *http.Response {
	r.Helper()
	response, err := r.client.Do(r.request(path, body, header...))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func (r *rig) request(path, body string, header ...string) *http.Request {
	request, err := http.NewRequest(http.MethodPost, r.url+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+testKey)
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		if header[i+1] == "" {
			request.Header.Del(header[i])
		} else {
			request.Header.Set(header[i], header[i+1])
		}
	}
	return request
}

func readBody(t *testing.T, response *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// wantError checks a refusal's status, code and param.
func wantError(t *testing.T, response *http.Response, status int, code, param string) {
	t.Helper()
	text := readBody(t, response)
	var got struct {
		Error struct{ Message, Type, Param, Code string }
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("status %d, body %q: %v", response.StatusCode, text, err)
	}
	if response.StatusCode != status || got.Error.Code != code || got.Error.Param != param || got.Error.Message == "" || got.Error.Type == "" {
		t.Errorf("got %d %s\nwant %d, code %q, param %q", response.StatusCode, text, status, code, param)
	}
	if response.Header.Get("x-request-id") == "" {
		t.Error("no x-request-id")
	}
}

// awaitIdle waits until no exchange is under way and no replica works.
func (r *rig) awaitIdle() {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.gateway.waitIdle(ctx); err != nil {
		r.Fatal(err)
	}
	for _, replica := range r.replicas {
		if err := replica.Await(ctx, func(s sim.Stats) bool { return s.Running == 0 && s.Waiting == 0 }); err != nil {
			r.Fatalf("replica still works: %+v", replica.Stats())
		}
	}
}

// logBuffer collects log lines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

const (
	chatBody   = `{"model":"mete","messages":[{"role":"user","content":"hello"}]}`
	streamBody = `{"model":"mete","stream":true,"messages":[{"role":"user","content":"hello"}]}`
)
