package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"mete/balancer"
	"mete/balancer/consul"
	"mete/config"
	"mete/config/certs"
)

// firstLists is how long a start waits for pools whose replicas are not known
// yet. Then it goes on without them.
const firstLists = 5 * time.Second

// poolWiring is what the pools of a gateway share.
type poolWiring struct {
	listed  chan struct{} // tells that a source has brought a list
	open    atomic.Bool   // the API listener answers
	changes changeLog
	consul  *consul.Client // nil until a pool or the registration needs it
	leave   func()         // deregisters the gateway from Consul, once

	keepRegistered func() // in its place: ends renewing the registration and leaves it
}

// feed is what keeps one pool going: the checks of its replicas, and the
// sources that name them.
type feed struct {
	pool    *balancer.Pool
	sources []*source
	stop    context.CancelFunc // of the checks
	ended   chan struct{}
}

// start checks the replicas and follows the sources until close.
func (f *feed) start() {
	ctx, stop := context.WithCancel(context.Background())
	f.stop, f.ended = stop, make(chan struct{})
	go func() {
		defer close(f.ended)
		f.pool.Run(ctx)
	}()
	for _, s := range f.sources {
		s.start()
	}
}

func (f *feed) close() {
	for _, s := range f.sources {
		s.close()
	}
	f.stop()
	<-f.ended
}

// makePools makes the pools with the replicas that the configuration itself
// names. Nothing is asked yet.
func (r *running) makePools(context.Context) error {
	r.listed = make(chan struct{}, 1)
	r.leave, r.keepRegistered = func() {}, func() {}
	r.changes.news = make(chan balancer.Change, 4096)
	if err := r.openStateDir(); err != nil {
		// The gateway serves without: only a start while Consul is away is lost.
		r.log.Warn().Err(err).Msg("replicas are not kept on disk")
	}
	feeds := map[string]*feed{}
	for _, name := range r.cfg().PoolNames() {
		made, err := r.makeFeed(r.cfg(), name)
		if err != nil {
			return err
		}
		feeds[name] = made
	}
	r.now.Store(newSetup(r.cfg(), feeds))
	return nil
}

func newSetup(cfg *config.Config, feeds map[string]*feed) *setup {
	s := &setup{cfg: cfg, feeds: feeds, pools: make(map[string]*balancer.Pool, len(feeds))}
	for _, name := range cfg.PoolNames() {
		s.pools[name] = feeds[name].pool
		s.sources = append(s.sources, feeds[name].sources...)
	}
	return s
}

// makeFeed makes a pool and what will keep it going.
func (r *running) makeFeed(cfg *config.Config, name string) (*feed, error) {
	settings := cfg.Pools[name]
	options, err := r.poolOptions(cfg, name)
	if err != nil {
		return nil, err
	}
	pool, err := balancer.NewPool(name, balancer.Static(settings.Replicas), options)
	if err != nil {
		return nil, fmt.Errorf("pool %q: %w", name, err)
	}
	f := &feed{pool: pool}
	f.sources, err = r.makeSources(pool, settings, nil)
	return f, err
}

func (r *running) poolOptions(cfg *config.Config, name string) (balancer.Options, error) {
	settings := cfg.Pools[name]
	options := balancer.Options{
		MaxInFlight: int64(cmp.Or(settings.MaxInFlight, cfg.Bounds.ReplicaConnections)),
		LearnCap:    settings.MaxInFlight == 0,
		Queue:       balancer.QueueOptions{MaxLength: settings.QueueLength, MaxPerCaller: max(settings.QueueLength/2, 1), MaxWait: settings.QueueWait},
		APIKey:      settings.APIKey.Reveal(),
		Interval:    settings.CheckInterval,
		Faults:      settings.BreakerFaults,
		OnChange:    r.replicaChanged,
	}
	for _, m := range cfg.ModelsOf(name) {
		if !slices.Contains(options.Models, m.Upstream()) {
			options.Models = append(options.Models, m.Upstream())
		}
	}
	var err error
	options.TLS, err = certs.Client(settings.TLS, r.certTrouble)
	if err != nil {
		err = fmt.Errorf("pool %q: %w", name, err)
	}
	return options, err
}

// runPools checks the replicas and follows the sources until the gateway is
// closed, so also while it drains.
func (r *running) runPools(context.Context) error {
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() { r.changes.write(ctx, r.log) })
	for _, f := range r.now.Load().feeds {
		f.start()
	}
	r.onClose(func() {
		for _, f := range r.now.Load().feeds {
			f.close()
		}
		cancel()
		wait.Wait()
	})
	return nil
}

// awaitReplicas waits until each pool knows a replica, but not for long: a
// gateway that can serve some pools is better than none.
func (r *running) awaitReplicas(ctx context.Context) error {
	r.awaitLists(ctx, r.pools())
	return nil
}

func (r *running) awaitLists(ctx context.Context, pools map[string]*balancer.Pool) {
	ctx, cancel := context.WithTimeout(ctx, firstLists)
	defer cancel()
	for {
		missing := emptyPools(pools)
		if len(missing) == 0 {
			return
		}
		select {
		case <-r.listed:
		case <-ctx.Done():
			r.log.Warn().Str("pools", strings.Join(missing, ", ")).Dur("waited", firstLists).
				Msg("going on without replicas for some pools: no source has named any yet")
			return
		}
	}
}

// awaitSources waits, as long as awaitLists, until each source has brought a
// list.
func (r *running) awaitSources(ctx context.Context, sources []*source) {
	ctx, cancel := context.WithTimeout(ctx, firstLists)
	defer cancel()
	for slices.ContainsFunc(sources, func(s *source) bool { return s.status().Changed == nil }) {
		select {
		case <-r.listed:
		case <-ctx.Done():
			return
		}
	}
}

// emptyPools are the names of those that know no replica, sorted.
func emptyPools(pools map[string]*balancer.Pool) []string {
	var names []string
	for name, p := range pools {
		if len(p.Replicas()) == 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// replicaChanged is called under locks of the pool, so it only passes on.
func (r *running) replicaChanged(c balancer.Change) {
	if c.State == balancer.StateGone && r.gateway != nil {
		r.gateway.Forget(c.Replica)
	}
	r.changes.add(c)
}

// changeLog writes the news of replicas to the log from a goroutine of its own,
// so that a log that cannot be written holds nothing up.
type changeLog struct {
	news chan balancer.Change
	lost atomic.Int64 // that found no room
}

func (l *changeLog) add(c balancer.Change) {
	select {
	case l.news <- c:
	default:
		l.lost.Add(1)
	}
}

func (l *changeLog) write(ctx context.Context, log zerolog.Logger) {
	for {
		select {
		case c := <-l.news:
			log.WithLevel(levelOf(c.State)).Str("pool", c.Pool).Str("replica", c.Replica.ID).
				Str("state", string(c.State)).Str("why", c.Why).Msg("replica")
			if n := l.lost.Swap(0); n > 0 {
				log.Warn().Int64("changes", n).Msg("changes of replicas came too fast to be logged")
			}
		case <-ctx.Done():
			return
		}
	}
}

func levelOf(s balancer.State) zerolog.Level {
	switch s {
	case balancer.StateReady, balancer.StateWarming, balancer.StateGone, balancer.StateMaintenance:
		return zerolog.InfoLevel
	}
	return zerolog.WarnLevel
}
