package balancer

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"syscall"
	"time"
)

const (
	checkTimeout  = time.Second            // for /health and /v1/models, if the interval is not shorter
	scrapeTimeout = 300 * time.Millisecond // for /metrics, likewise
	failsInARow   = 3                      // silences that hold a replica out; a clear no does at once
	modelsEvery   = 30 * time.Second       // LoRA adapters come and go at run time
	kickPause     = 100 * time.Millisecond // at least so long between two checks

	defaultInterval = time.Second
)

// checkState is what the checks of a replica have found, guarded by its mu.
type checkState struct {
	at       int64  // when the last check ended; 0 is never
	fails    int    // in a row
	fault    string // of the last check
	modelsAt int64  // when its models were asked for; 0 is never, or again
	noModels string // why they are not known
}

// attend checks one replica until ctx ends. Each replica has its own goroutine
// and at most one request at a time, so that one that hangs delays no other.
func (p *Pool) attend(ctx context.Context, r *Replica) {
	w := &watcher{pool: p, replica: r, client: newClient(r), interval: p.options.Load().Interval}
	defer w.client.CloseIdleConnections()
	for ctx.Err() == nil {
		began := time.Now()
		w.round(ctx)
		jittered := time.Duration(float64(w.interval) * (0.9 + 0.2*rand.Float64()))
		w.rest(ctx, jittered-time.Since(began))
	}
}

// watcher looks after one replica.
type watcher struct {
	pool     *Pool
	replica  *Replica
	client   *http.Client
	interval time.Duration
	page     bytes.Buffer // the last answer
}

// round is one check with all that it finds worth asking for.
func (w *watcher) round(ctx context.Context) {
	if !w.checkHealth(ctx) {
		return
	}
	if w.modelsDue() {
		w.learnModels(ctx)
	}
	// A replica that sends its load with its answers need not be asked for it.
	if at := w.replica.signal.at.Load(); at == 0 || w.replica.clock()-at > int64(w.interval)/2 {
		w.scrape(ctx)
	}
}

// rest waits for the next round: the pause, or until somebody asks for a check.
func (w *watcher) rest(ctx context.Context, pause time.Duration) {
	least := time.NewTimer(kickPause)
	defer least.Stop()
	select {
	case <-ctx.Done():
		return
	case <-least.C:
	}
	timer := time.NewTimer(pause - kickPause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-w.replica.kick:
	}
}

// checkHealth asks /health and reports whether the replica answers it well.
func (w *watcher) checkHealth(ctx context.Context) bool {
	status, _, err := w.get(ctx, "/health", checkTimeout)
	if ctx.Err() != nil {
		return false
	}
	if err == nil && status >= http.StatusMultipleChoices {
		err = statusError(status)
	}
	w.found(err)
	return err == nil
}

// found draws the conclusions from a check.
func (w *watcher) found(err error) {
	r, p := w.replica, w.pool
	r.mu.Lock()
	c := &r.check
	c.at, c.fault = r.clock(), ""
	if err == nil {
		c.fails = 0
	} else {
		c.fails++
		c.fault = err.Error()
		c.modelsAt = 0 // what comes back may be another server
	}
	fails := c.fails
	r.mu.Unlock()
	var answered statusError
	switch {
	case err == nil:
		p.hold(r, holdCheck|holdRefused, "")
	case errors.Is(err, syscall.ECONNREFUSED):
		p.hold(r, holdRefused, "connection refused")
	case errors.As(err, &answered) || fails >= failsInARow:
		p.hold(r, holdCheck, "/health: "+err.Error())
	}
}

// scrape reads the load from /metrics.
func (w *watcher) scrape(ctx context.Context) {
	r := w.replica
	before := r.inFlight.Load()
	status, page, err := w.get(ctx, "/metrics", scrapeTimeout)
	if ctx.Err() != nil {
		return
	}
	if err == nil && status != http.StatusOK {
		err = statusError(status)
	}
	if err != nil {
		r.signal.missed(err.Error())
		return
	}
	load := ParseMetrics(page)
	if load == unsaid {
		r.signal.missed("/metrics has none of vLLM's load metrics")
		return
	}
	w.pool.observe(r, load, (before+r.inFlight.Load())/2, "metrics")
}

// Observe takes in the load that a replica of the pool has just told by other
// means than those of Run.
func (p *Pool) Observe(r *Replica, load Load) { p.observe(r, load, r.inFlight.Load(), "told") }

// observe draws the conclusions from a load, beside which so many requests were
// our own.
func (p *Pool) observe(r *Replica, load Load, own int64, source string) {
	r.signal.told(load, own, r.clock(), source)
	r.reach.told(load, own, r.clock())
	p.learnDrain(r.clock())
	p.weighShare()
}
