package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"mete/balancer"
	"mete/config"
)

// loader reads the configuration again. It returns the files that it read,
// also when it fails.
type loader func() (*config.Config, []string, error)

// reloadEvery is how often the files of the configuration are looked at.
const reloadEvery = 500 * time.Millisecond

// goReload runs reloads until the gateway is closed.
func (r *running) goReload(load loader, watch *fileWatch, hup <-chan os.Signal) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.reloads(ctx, load, watch, hup)
	}()
	r.onClose(func() { cancel(); <-ended })
}

// reloads loads the configuration again on SIGHUP and when one of its files has
// changed, until ctx ends. What is refused changes nothing.
func (r *running) reloads(ctx context.Context, load loader, watch *fileWatch, hup <-chan os.Signal) {
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
		case <-tick.C:
			if !watch.changed() {
				continue
			}
		}
		_ = notify(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", monotonic()))
		before := newFileWatch(slices.Collect(maps.Keys(watch.stamps)))
		next, files, err := load()
		watch = before.following(files)
		if err == nil {
			err = r.reload(ctx, next)
		}
		r.meters.reloaded(err)
		_ = notify("READY=1")
		if err != nil {
			r.log.Error().Strs("faults", strings.Split(err.Error(), "\n")).Msg("configuration refused; the one before stays in force")
		}
	}
}

// reload puts next in force, all of it or nothing. Requests under way keep what
// they began with. It must not be called twice at a time.
func (r *running) reload(ctx context.Context, next *config.Config) error {
	before := r.now.Load()
	kept, err := next.Inherit(before.cfg)
	if err != nil {
		return err
	}
	for _, name := range kept {
		r.log.Warn().Str("field", name).Msg("has changed, but only a restart puts it in force")
	}
	static, err := staticKeys(next)
	if err != nil {
		return err
	}
	change, err := r.changePools(before, next)
	if err != nil {
		return err
	}
	for _, f := range change.fresh {
		f.start()
	}
	r.awaitLists(ctx, change.added())
	if err := errors.Join(ctx.Err(), r.gateway.Apply(next, change.after.pools)); err != nil {
		for _, f := range change.fresh {
			f.close()
		}
		return err
	}
	r.limiter.Reload(next.Plans, static)
	r.now.Store(change.after)
	r.finishPools(ctx, change)
	_ = r.level.set(next.Log.Level) // it was checked
	r.log.Info().Int("models", len(next.Models)).Int("pools", len(next.Pools)).Msg("configuration loaded again")
	return nil
}

// poolChange is the way from one set of pools to the next. Pools and sources
// that stay run on; new ones have a list before the old ones are stopped.
type poolChange struct {
	before, after *setup
	fresh         []*feed                     // of pools that are new, or must be made anew
	sources       []*source                   // that are new to a pool that stays
	options       map[string]balancer.Options // of pools that stay, by name
}

func (r *running) changePools(before *setup, next *config.Config) (*poolChange, error) {
	c := &poolChange{before: before, options: map[string]balancer.Options{}}
	feeds := map[string]*feed{}
	for _, name := range next.PoolNames() {
		old, there := before.feeds[name]
		if there && sameChecks(before.cfg.Pools[name], next.Pools[name]) {
			sources, err := r.makeSources(old.pool, next.Pools[name], old.sources)
			if err != nil {
				return nil, err
			}
			if c.options[name], err = r.poolOptions(next, name); err != nil {
				return nil, err
			}
			feeds[name] = &feed{pool: old.pool, sources: sources, stop: old.stop, ended: old.ended}
			c.sources = append(c.sources, without(sources, old.sources)...)
			continue
		}
		made, err := r.makeFeed(next, name)
		if err != nil {
			return nil, err
		}
		feeds[name] = made
		c.fresh = append(c.fresh, made)
	}
	c.after = newSetup(next, feeds)
	return c, nil
}

// sameChecks reports whether a pool can go on: how its replicas are connected to
// and checked is fixed when they come.
func sameChecks(a, b config.Pool) bool {
	return a.CheckInterval == b.CheckInterval && a.BreakerFaults == b.BreakerFaults && a.TLS == b.TLS
}

// added are the pools that were not there before.
func (c *poolChange) added() map[string]*balancer.Pool {
	pools := make(map[string]*balancer.Pool, len(c.fresh))
	for _, f := range c.fresh {
		pools[f.pool.Name()] = f.pool
	}
	return pools
}

// finishPools tells the pools that stay what is new, and stops what is not
// wanted any more. Streams from the replicas of a pool that goes end in peace.
func (r *running) finishPools(ctx context.Context, c *poolChange) {
	for name, now := range c.after.feeds {
		if old := c.before.feeds[name]; old != nil && old.pool == now.pool {
			now.pool.Reconfigure(c.options[name])
			if err := now.pool.Update(balancer.Static(c.after.cfg.Pools[name].Replicas)); err != nil {
				r.log.Error().Err(err).Str("pool", name).Msg("replicas of the configuration") // they were checked
			}
		}
	}
	for _, s := range c.sources {
		s.start()
	}
	r.awaitSources(ctx, c.sources)
	for name, old := range c.before.feeds {
		if now := c.after.feeds[name]; now != nil && old.pool == now.pool {
			dropSources(old.pool, without(old.sources, now.sources), now.sources)
			continue
		}
		old.close()
		for _, replica := range old.pool.Replicas() {
			r.gateway.Forget(replica)
		}
	}
}

// dropSources stops sources of a pool that goes on with others.
func dropSources(pool *balancer.Pool, unwanted, wanted []*source) {
	for _, s := range unwanted {
		s.close()
		if !slices.ContainsFunc(wanted, func(w *source) bool { return w.view.Source == s.view.Source }) {
			_ = pool.Publish(s.view.Source, nil) // nothing that could be refused
		}
	}
}

// without returns those of all that are not in others.
func without(all, others []*source) (rest []*source) {
	for _, s := range all {
		if !slices.Contains(others, s) {
			rest = append(rest, s)
		}
	}
	return rest
}

// fileWatch tells that a file was changed, replaced, made or removed.
type fileWatch struct {
	stamps  map[string]string
	pending bool // it was seen to change a moment ago
}

func newFileWatch(files []string) *fileWatch {
	w := &fileWatch{stamps: make(map[string]string, len(files))}
	for _, name := range files {
		w.stamps[name] = stampOf(name)
	}
	return w
}

// following watches the files that were read since w was made. One of w's that
// has changed meanwhile counts as changed: nobody knows which of it was read.
func (w *fileWatch) following(files []string) *fileWatch {
	next := newFileWatch(files)
	for name := range next.stamps {
		if before, known := w.stamps[name]; known {
			next.stamps[name] = before
		}
	}
	return next
}

// changed reports a change once the files have held still since the call
// before: an editor may be in the middle of writing them.
func (w *fileWatch) changed() bool {
	still := true
	for name, before := range w.stamps {
		if now := stampOf(name); now != before {
			w.stamps[name], w.pending, still = now, true, false
		}
	}
	return w.pending && still
}

// stampOf follows links: Kubernetes replaces what a link points to.
func stampOf(name string) string {
	info, err := os.Stat(name)
	if err != nil {
		return err.Error()
	}
	inode := uint64(0)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = stat.Ino
	}
	return fmt.Sprintf("%d %d %d", info.ModTime().UnixNano(), info.Size(), inode)
}
