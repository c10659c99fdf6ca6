package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"mete/auth"
	"mete/balancer"
	"mete/config"
	"mete/devicecode"
	"mete/limits"
	"mete/proxy/front"
	"mete/proxy/meter"
	"mete/proxy/trace"
)

// Options are what a gateway is given by its maker.
type Options struct {
	Limiter *limits.Limiter
	Pools   map[string]*balancer.Pool // by the names of the configuration
	Metrics *meter.Book
	Log     zerolog.Logger
	TLS     *tls.Config   // of the API listener; nil: plain HTTP
	Tracer  *trace.Tracer // nil: nothing is traced
	// Revoke revokes a key of the store by its id. Nil: no key can be revoked.
	Revoke func(ctx context.Context, id string) error
	// DeviceCode and DeviceToken answer the routes of device login. Nil: it is
	// off.
	DeviceCode, DeviceToken func(context.Context, devicecode.Request) devicecode.Response
}

// Gateway serves the API listener.
type Gateway struct {
	limiter                 *limits.Limiter
	revoke                  func(ctx context.Context, id string) error
	deviceCode, deviceToken deviceRoute
	format                  auth.Format
	log                     zerolog.Logger
	metrics                 *metrics
	server                  *fasthttp.Server
	ids                     *idSource
	tracer                  *trace.Tracer
	bodies                  bodyBudget
	tls                     *tls.Config
	addresses               front.Addresses // of clients, and what each holds

	table     atomic.Pointer[table]
	upstreams sync.Map // *balancer.Replica → *upstream
	retired   atomic.Bool
	hangups   *hangups
	janitor   func() // stops the goroutine that sweeps idle upstream connections

	mu   sync.Mutex
	live map[*exchange]struct{}
	cut  error // once set, every exchange is cut with it
}

// New makes a gateway from a checked configuration. Close releases it.
func New(cfg *config.Config, o Options) (*Gateway, error) {
	g := &Gateway{
		limiter:    o.Limiter,
		revoke:     o.Revoke,
		deviceCode: o.DeviceCode, deviceToken: o.DeviceToken,
		format:  auth.NewFormat(cfg.Service),
		log:     o.Log,
		tracer:  o.Tracer,
		metrics: newMetrics(o.Metrics, cfg.Metrics.Callers),
		ids:     newIDSource(),
		tls:     o.TLS,
		live:    make(map[*exchange]struct{}),
	}
	g.bodies.limit = int64(cfg.Bounds.BodiesInFlight)
	g.metrics.watch(o.Metrics, g)
	if err := g.Apply(cfg, o.Pools); err != nil {
		return nil, err
	}
	var err error
	if g.hangups, err = newHangups(); err != nil {
		return nil, err
	}
	g.server = g.newServer(cfg)
	g.startJanitor()
	return g, nil
}

// Apply puts a configuration's models and pools in force for the requests that
// come from now on.
func (g *Gateway) Apply(cfg *config.Config, pools map[string]*balancer.Pool) error {
	t, err := newTable(cfg, pools, g.metrics)
	if err != nil {
		return err
	}
	if before := g.table.Swap(t); before != nil && before.config.Timeouts != cfg.Timeouts {
		g.forgetUpstreams() // they have the old ones
	}
	g.forgetSeries()
	return nil
}

// forgetSeries removes the series of models and pools that there are no more.
func (g *Gateway) forgetSeries() {
	t := g.table.Load()
	g.metrics.keep(
		func(model string) bool { return t.find([]byte(model)) != nil },
		func(pool string) bool { _, ok := t.config.Pools[pool]; return ok },
	)
}

// Serve answers requests on ln until Shutdown.
func (g *Gateway) Serve(ln net.Listener) error {
	return g.server.Serve(gatedListener{g.guard(ln, g.tls, g.client)})
}

// Guard puts the bounds on connections and the PROXY protocol of the API
// listener before another one, and TLS unless it is nil. Both count the same
// addresses.
func (g *Gateway) Guard(ln net.Listener, t *tls.Config) net.Listener { return g.guard(ln, t, nil) }

// Ready reports whether requests should be sent here.
func (g *Gateway) Ready() bool { return !g.retired.Load() }

// Retire begins the lame-duck time: the gateway is not ready any more and asks
// its clients to close their connections, but answers as before.
func (g *Gateway) Retire() { g.retired.Store(true) }

// Shutdown stops accepting and waits for the exchanges under way. When ctx
// ends first, they are cut, each with an error event where that is possible,
// and the error says how many.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.Retire()
	err := g.server.ShutdownWithContext(ctx)
	if ctx.Err() == nil {
		return err
	}
	n := g.cutAll(errDraining)
	grace, cancel := context.WithTimeout(context.Background(), cutGrace)
	defer cancel()
	if err := g.waitIdle(grace); err != nil {
		return err
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d exchanges were cut: %w", n, ctx.Err())
}

// cutGrace is how long exchanges that were cut may take to notice.
const cutGrace = 5 * time.Second

// Close releases what Shutdown leaves: idle connections to replicas.
func (g *Gateway) Close() {
	g.janitor()
	g.hangups.close()
	g.forgetUpstreams()
}

// forgetUpstreams closes the idle connections to all replicas.
func (g *Gateway) forgetUpstreams() {
	g.upstreams.Range(func(r, _ any) bool {
		g.Forget(r.(*balancer.Replica))
		return true
	})
}

func (g *Gateway) newServer(cfg *config.Config) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:        g.handle,
		ErrorHandler:   g.refuseUnreadable,
		ExpectHandler:  g.expect,
		Logger:         quiet{},
		HeaderReceived: findExpect,

		ReadBufferSize:     int(cfg.Bounds.HeaderBytes),
		WriteBufferSize:    1 << 10, // a header and a first event; the other parts of a stream pass it by
		MaxRequestBodySize: int(cfg.Bounds.Body),
		Concurrency:        1 << 20, // the listener counts, and says so in JSON
		ReadTimeout:        cfg.Timeouts.Header,
		WriteTimeout:       cfg.Timeouts.Write,
		IdleTimeout:        cfg.Timeouts.KeepAlive,

		StreamRequestBody:             true,
		DisablePreParseMultipartForm:  true,
		DisableHeaderNamesNormalizing: true,
		NoDefaultServerHeader:         true,
		NoDefaultContentType:          true,
		CloseOnShutdown:               true,
	}
}

// startJanitor sweeps idle upstream connections once a second.
func (g *Gateway) startJanitor() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				g.sweep(now)
				if len(g.table.Load().adapterPools) > 0 {
					g.forgetSeries() // adapters come and go by themselves
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	g.janitor = func() { cancel(); <-done }
}

func (g *Gateway) sweep(now time.Time) {
	g.upstreams.Range(func(_, u any) bool {
		u.(*upstream).sweep(now)
		return true
	})
}

// upstreamOf returns the connections to a replica.
func (g *Gateway) upstreamOf(r *balancer.Replica) *upstream {
	if u, ok := g.upstreams.Load(r); ok {
		return u.(*upstream)
	}
	u, _ := g.upstreams.LoadOrStore(r, newUpstream(r, &g.table.Load().config.Timeouts, g.hangups))
	return u.(*upstream)
}

// Forget closes the idle connections to a replica that has left its pool.
// Exchanges that still run on it end in peace.
func (g *Gateway) Forget(r *balancer.Replica) {
	if u, ok := g.upstreams.LoadAndDelete(r); ok {
		u.(*upstream).close()
	}
}

// enter registers an exchange, so that a gateway that stops can cut it.
func (g *Gateway) enter(x *exchange) {
	g.mu.Lock()
	g.live[x] = struct{}{}
	x.rank = len(g.live)
	cut := g.cut
	g.mu.Unlock()
	if cut != nil {
		x.leave(cut)
	}
}

func (g *Gateway) exit(x *exchange) {
	g.mu.Lock()
	delete(g.live, x)
	g.mu.Unlock()
}

// cutAll cancels every exchange, now and later, and returns how many there are.
func (g *Gateway) cutAll(cause error) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut = cause
	for x := range g.live {
		x.leave(cause)
	}
	return len(g.live)
}

// PredictTTFT is how long a stream of a model that comes now should wait for
// its first token; nought where nothing is known.
func (g *Gateway) PredictTTFT(model string) time.Duration {
	return g.metrics.model(model).awaited.predict(time.Now())
}

func (g *Gateway) connections() int32 { return g.server.GetOpenConnectionsCount() }

// InFlight is the number of exchanges under way.
func (g *Gateway) InFlight() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.live)
}

func (g *Gateway) waitIdle(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for g.InFlight() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New("exchanges did not end after they were cut")
		}
	}
	return nil
}

// quiet drops fasthttp's own messages. They are about single connections, and
// quote what the client has sent, keys and all.
type quiet struct{}

// Printf implements fasthttp.Logger.
func (quiet) Printf(string, ...any) {}
