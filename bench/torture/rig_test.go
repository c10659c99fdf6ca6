package torture

import (
	"context"
	"crypto/sha256"
	"flag"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"mete/auth"
	"mete/balancer"
	"mete/config"
	"mete/limits"
	"mete/proxy"
	"mete/proxy/meter"
)

var long = flag.Bool("long", false, "run every case cut at every byte")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"), // sleeps a second, then ends
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),             // one per process, for ever
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),          // sleeps, then ends
	)
}

// upstream counts the requests that reach it, and knows the only body that may.
type upstream struct {
	*httptest.Server
	posts atomic.Int64 // of the question
	wrong atomic.Int64 // of anything else
}

func startUpstream(t testing.TB) *upstream {
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		switch {
		case r.Method == http.MethodPost && r.URL.Path == chat && string(body) == question && err == nil:
			u.posts.Add(1)
		default:
			u.wrong.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{}]}`)
	}))
	t.Cleanup(u.Close)
	return u
}

// startGateway serves a gateway before the upstream and returns its address.
func startGateway(t testing.TB, u *upstream) string {
	t.Helper()
	cfg := config.Default()
	cfg.Timeouts.Connect = 5 * time.Second
	cfg.Models = []config.Model{{ID: "mete", Pool: "general", Created: time.Unix(1768435200, 0), ContextWindow: 32768, Root: "org/model"}}
	cfg.Plans["all"] = config.DefaultPlan()
	digest := sha256.Sum256([]byte(key))
	cfg.Keys = []config.Key{{Name: "test", Owner: "test", Plan: "all", SHA256: digest}}
	pool := config.DefaultPool()
	pool.Replicas = []string{u.URL}
	cfg.Pools["general"] = pool

	store, err := limits.Open(cfg.Redis)
	must(t, err)
	static, err := auth.NewStatic([]auth.StaticKey{{Name: "test", Owner: "test", Plan: "all", SHA256: digest}})
	must(t, err)
	limiter := limits.New(limits.Options{Service: cfg.Service, Redis: store, Static: static, Plans: cfg.Plans})
	replicas, err := balancer.NewPool("general", balancer.Static(pool.Replicas), balancer.Options{})
	must(t, err)
	gateway, err := proxy.New(cfg, proxy.Options{
		Limiter: limiter, Pools: map[string]*balancer.Pool{"general": replicas},
		Metrics: meter.NewBook(prometheus.NewRegistry(), false), Log: zerolog.Nop(),
	})
	must(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- gateway.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := gateway.Shutdown(ctx); err != nil {
			t.Error("shutdown:", err)
		}
		<-done
		gateway.Close()
		limiter.Close(context.Background())
		_ = store.Close()
	})
	return ln.Addr().String()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
