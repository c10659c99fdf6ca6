package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"mete/auth"
	"mete/balancer"
	"mete/config"
	"mete/limits"
	"mete/proxy"
	"mete/proxy/meter"
	"mete/proxy/trace"
)

// running is a gateway with all that it stands on.
type running struct {
	now      atomic.Pointer[setup] // what is in force; see reload.go
	log      zerolog.Logger
	level    *logLevel // of log
	store    redis.UniversalClient
	keys     *auth.Store // nil when there are only static keys
	limiter  *limits.Limiter
	registry *prometheus.Registry
	book     *meter.Book
	meters   lifeMeters
	tracer   *trace.Tracer // nil: nothing is traced
	gateway  *proxy.Gateway
	api      *socket
	admin    *socket
	pages    *socket    // the console's; nil when it is off
	web      *web       // nil when the console is off
	announce io.Writer  // where a first password is shown, once
	failed   chan error // of a listener
	closers  []func()   // run last to first
	poolWiring
}

// start makes everything ready, in the order in which one thing needs the
// other, and serves. What has been started is closed again on an error.
func start(ctx context.Context, cfg *config.Config, log zerolog.Logger) (*running, error) {
	return startAnnouncing(ctx, cfg, log, os.Stderr)
}

// startAnnouncing is start, with a choice of where a first password is shown.
func startAnnouncing(ctx context.Context, cfg *config.Config, log zerolog.Logger, announce io.Writer) (*running, error) {
	r := &running{log: log, announce: announce, failed: make(chan error, 3)}
	r.now.Store(&setup{cfg: cfg})
	var err error
	if r.level, err = newLogLevel(cfg.Log.Level); err != nil {
		return nil, err
	}
	r.log = log.Sample(r.level)
	r.registry, r.book = newMeters(cfg.Metrics)
	r.meters = newLifeMeters(r.book)
	for _, step := range []func(context.Context) error{
		r.listen, r.openStore, r.openLimiter, r.makePools, r.makeWeb, r.openTracer, r.makeGateway, r.makeMeters, r.runPools,
		r.serveAdmin, r.awaitReplicas, r.serveAPI, r.serveWeb, r.register,
	} {
		if err := step(ctx); err != nil {
			r.close()
			return nil, err
		}
	}
	return r, nil
}

// setup is what a reload replaces, as a whole. It is never changed.
type setup struct {
	cfg     *config.Config
	pools   map[string]*balancer.Pool // by name
	feeds   map[string]*feed          // what keeps a pool going, by its name
	sources []*source                 // of all pools
}

func (r *running) cfg() *config.Config              { return r.now.Load().cfg }
func (r *running) pools() map[string]*balancer.Pool { return r.now.Load().pools }
func (r *running) sources() []*source               { return r.now.Load().sources }

// listen claims the addresses first: nothing else need be undone when one is
// taken.
func (r *running) listen(context.Context) (err error) {
	inherited := inherit()
	defer inherited.drop()
	if r.api, err = listen("API", r.cfg().Listen.API, inherited); err != nil {
		return err
	}
	r.onClose(func() { _ = r.api.Close() })
	if r.admin, err = listen("admin", r.cfg().Listen.Admin, inherited); err != nil {
		return err
	}
	r.onClose(func() { _ = r.admin.Close() })
	if r.cfg().Listen.Console == "" {
		return nil
	}
	if r.pages, err = listen("console", r.cfg().Listen.Console, inherited); err != nil {
		return err
	}
	r.onClose(func() { _ = r.pages.Close() })
	return nil
}

// makeWeb makes the console and device login, where there is a listener for
// their pages.
func (r *running) makeWeb(context.Context) (err error) {
	if r.pages != nil {
		r.web, err = newWeb(r, r.pages, r.pools, r.cfg)
	}
	return err
}

func (r *running) serveWeb(context.Context) error {
	if r.web == nil {
		return nil
	}
	secure, err := r.serverTLS("console", r.cfg().TLS.Console)
	if err == nil {
		r.web.serve(r.gateway.Guard(r.pages, secure), r.announce)
	}
	return err
}

func (r *running) close() {
	for i := len(r.closers) - 1; i >= 0; i-- {
		r.closers[i]()
	}
}

func (r *running) onClose(f func()) { r.closers = append(r.closers, f) }

// makeMeters registers what is read from the parts of the gateway when it is
// scraped.
func (r *running) makeMeters(context.Context) error {
	for _, c := range []prometheus.Collector{
		newPoolMeters(r.book, r.pools),
		newModelMeters(r.book, modelMeters{config: r.cfg, pools: r.pools, predict: r.gateway.PredictTTFT}),
		newLimitMeters(r.book, r.limiter.Stats, r.store.PoolStats),
		newSourceMeters(r.book, r.sources),
		newTraceMeters(r.book, r.tracer),
	} {
		r.book.Register(c)
	}
	return nil
}

func (r *running) openStore(ctx context.Context) error {
	store, err := limits.Open(r.cfg().Redis)
	if err != nil {
		return err
	}
	r.store = store
	r.onClose(func() { _ = store.Close() })
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if warning := limits.CheckPolicy(ctx, store); warning != "" {
		r.log.Warn().Msg(warning)
	}
	return nil
}

// openLimiter makes the key store and the limiter. Redis need not be there:
// the gateway starts without it and says so, and keys are checked once it is.
func (r *running) openLimiter(ctx context.Context) error {
	static, err := staticKeys(r.cfg())
	if err != nil {
		return err
	}
	options := limits.Options{
		Service: r.cfg().Service, Redis: r.store, Static: static, Plans: r.cfg().Plans,
		Timeout: storeTimeout(r.cfg()), Called: newRedisMeters(r.book).called,
		Alarm: func(a limits.Alarm, err error) { r.log.Warn().Err(err).Msg(string(a)) },
	}
	if options.Peppers, err = peppers(r.cfg()); err != nil {
		return err
	}
	if options.Peppers != nil {
		r.keys = auth.NewStore(r.store, r.cfg().Service, options.Peppers)
		if options.Marker, err = r.keys.Mark(ctx); err != nil {
			r.log.Warn().Err(err).Msg("the key store cannot be reached yet")
		}
		options.Saw = r.countUses()
	}
	r.limiter = limits.New(options)
	r.onClose(func() { r.limiter.Close(context.Background()) })
	return nil
}

// storeTimeout is how long one call to the store may take. The embedded one is
// in this process: it may be slow on a busy machine, but it cannot be away.
func storeTimeout(cfg *config.Config) time.Duration {
	if cfg.Redis.Kind() == config.RedisEmbedded {
		return 5 * time.Second
	}
	return cfg.Redis.Timeout
}

// countUses writes down when keys were last used.
func (r *running) countUses() func(owner, id string) {
	uses := auth.NewUses(r.keys)
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() {
		uses.Run(ctx, func(err error) { r.log.Warn().Err(err).Msg("last uses of keys were not written") })
	})
	r.onClose(func() { cancel(); wait.Wait() })
	return uses.Saw
}

func staticKeys(cfg *config.Config) (*auth.Static, error) {
	keys := make([]auth.StaticKey, len(cfg.Keys))
	for i, k := range cfg.Keys {
		keys[i] = auth.StaticKey{Name: k.Name, Owner: k.Owner, Plan: k.Plan, SHA256: k.SHA256}
	}
	return auth.NewStatic(keys)
}

// peppers are those of the configuration. The embedded store, which forgets
// everything at exit, gets one that does so too.
func peppers(cfg *config.Config) (*auth.Peppers, error) {
	var all []auth.Pepper
	for _, p := range cfg.Keystore.Peppers {
		all = append(all, auth.Pepper{Version: p.Version, Secret: []byte(p.Secret.Reveal())})
	}
	if len(all) == 0 && cfg.Redis.Kind() == config.RedisEmbedded {
		made, err := auth.RandomPepper()
		if err != nil {
			return nil, err
		}
		all = append(all, made)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return auth.NewPeppers(all...)
}

func (r *running) serveAPI(context.Context) error {
	r.open.Store(true)
	r.goServe("API", func() error { return r.gateway.Serve(r.api) })
	r.onClose(func() {
		_ = r.api.Close() // Shutdown would not find it if serving has not begun
		now, cancel := context.WithCancel(context.Background())
		cancel()
		_ = r.gateway.Shutdown(now) // nothing to do once it has drained
	})
	return nil
}

func (r *running) makeGateway(context.Context) error {
	options := proxy.Options{Limiter: r.limiter, Pools: r.pools(), Metrics: r.book, Log: r.log, Tracer: r.tracer}
	if r.keys != nil {
		options.Revoke = func(ctx context.Context, id string) error {
			key, err := r.keys.Revoke(ctx, id)
			if err == nil {
				r.web.keyChanged(ctx, "key revoked", key, "")
			}
			return err
		}
	}
	options.DeviceCode, options.DeviceToken = r.web.deviceRoutes()
	var err error
	if options.TLS, err = r.serverTLS("API", r.cfg().TLS.API); err != nil {
		return err
	}
	gateway, err := proxy.New(r.cfg(), options)
	if err != nil {
		return err
	}
	r.gateway = gateway
	if lowered := gateway.LoweredBounds(); lowered != "" {
		r.log.Warn().Msg("bounds are lowered: " + lowered)
	}
	r.onClose(gateway.Close)
	return nil
}

// goServe runs a listener; its end before the gateway's is a failure.
func (r *running) goServe(what string, serve func() error) {
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := serve(); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			r.failed <- fmt.Errorf("%s listener: %w", what, err)
		}
	})
	r.onClose(wait.Wait)
}

// secondSignal ends when another signal asks to stop at once.
type secondSignal struct {
	context.Context
	release func()
}

func newSecondSignal() secondSignal {
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	return secondSignal{ctx, release}
}

// newHTTPServer has bounds that fit an admin listener; a profile may take long.
func (r *running) newHTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: r.recovering(h), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: stdlog.New(io.Discard, "", 0), // about single connections, with what they sent
	}
}

// recovering makes a panic cost one request: it is counted and logged, and its
// connection is cut.
func (r *running) recovering(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		defer func() {
			if v := recover(); v != nil && v != http.ErrAbortHandler {
				r.gateway.Panicked(request.Pattern, v)
				panic(http.ErrAbortHandler)
			} else if v != nil {
				panic(v)
			}
		}()
		h.ServeHTTP(w, request)
	})
}
