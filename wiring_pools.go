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
	"mete/config"
	"mete/config/certs"
)

// firstLists is how long a start waits for pools whose replicas are not known
// yet. Then it goes on without them.
const firstLists = 5 * time.Second

// poolWiring is the pools of a gateway, and where their replicas come from.
type poolWiring struct {
	pools   map[string]*balancer.Pool // by name
	sources []*source
	listed  chan struct{} // tells that a source has brought a list
	open    atomic.Bool   // the API listener answers
	changes changeLog
	leave   func() // deregisters the gateway from Consul, once
}

// makePools makes the pools with the replicas that the configuration itself
// names. Nothing is asked yet.
func (r *running) makePools(context.Context) error {
	r.pools, r.listed = make(map[string]*balancer.Pool, len(r.cfg.Pools)), make(chan struct{}, 1)
	r.changes.news = make(chan balancer.Change, 4096)
	for name, settings := range r.cfg.Pools {
		options, err := r.poolOptions(name, settings)
		if err != nil {
			return err
		}
		pool, err := balancer.NewPool(name, balancer.Static(settings.Replicas), options)
		if err != nil {
			return fmt.Errorf("pool %q: %w", name, err)
		}
		r.pools[name] = pool
	}
	return nil
}

func (r *running) poolOptions(name string, settings config.Pool) (balancer.Options, error) {
	options := balancer.Options{
		MaxInFlight: int64(cmp.Or(settings.MaxInFlight, r.cfg.Bounds.ReplicaConnections)),
		APIKey:      settings.APIKey.Reveal(),
		Interval:    settings.CheckInterval,
		Faults:      settings.BreakerFaults,
		OnChange:    r.replicaChanged,
	}
	for _, m := range r.cfg.ModelsOf(name) {
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
	if err := r.makeSources(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() { r.changes.write(ctx, r.log) })
	for _, p := range r.pools {
		wait.Go(func() { p.Run(ctx) })
	}
	for _, s := range r.sources {
		wait.Go(func() { s.run(ctx) })
	}
	r.onClose(func() { cancel(); wait.Wait() })
	return nil
}

// awaitReplicas waits until each pool knows a replica, but not for long: a
// gateway that can serve some pools is better than none.
func (r *running) awaitReplicas(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, firstLists)
	defer cancel()
	for {
		missing := r.emptyPools()
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-r.listed:
		case <-ctx.Done():
			r.log.Warn().Str("pools", strings.Join(missing, ", ")).Dur("waited", firstLists).
				Msg("started without replicas for some pools: no source has named any yet")
			return nil
		}
	}
}

// emptyPools are the names of those that know no replica, sorted.
func (r *running) emptyPools() []string {
	var names []string
	for name, p := range r.pools {
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
