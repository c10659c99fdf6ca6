package consul

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"mete/balancer"
)

const (
	// waitTime is how long Consul may hold a query back when nothing changes.
	// It is short, since a query that hangs is only noticed after it.
	waitTime = 10 * time.Second
	// graceTime is how much longer the answer may take, beside the sixteenth of
	// the waiting time that Consul may add.
	graceTime = 2 * time.Second
	// askTime is the limit of a query that is not held back.
	askTime = 3 * time.Second

	betweenQueries = 100 * time.Millisecond // at least

	backoffFirst = time.Second
	// backoffMost and askTime together make the fifteen seconds in which a
	// change is taken up once Consul is well again.
	backoffMost = 12 * time.Second
)

// Service is what to watch.
type Service struct {
	Name       string
	Tag        string // only instances that bear it; may be empty
	Datacenter string // empty is the client's, likewise the next two
	Namespace  string
	Partition  string
	AllowStale bool // let any server answer, not only the leader
}

// Watch publishes the instances of one service as they change.
type Watch struct {
	Client  *Client
	Service Service
	Keeper  *balancer.Keeper                // nil keeps nothing on disk
	Publish func([]balancer.Endpoint) error // is given every new list
	OnError func(error)                     // is told each new trouble once, and nil when it is over. May be nil

	wait  time.Duration // waitTime, but for tests
	index uint64
	mu    sync.Mutex // guards status
	last  Status
}

// Status is how a watch stands, to be shown as JSON.
type Status struct {
	Service  string    `json:"service"`
	Answered time.Time `json:"answered"` // when Consul last answered well; zero is never
	Fault    string    `json:"fault,omitempty"`
	Replicas int       `json:"replicas"` // in the list in use
}

// Status is how the watch stands.
func (w *Watch) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last.Service = w.Service.Name
	return w.last
}

// Run publishes what was kept on disk, then watches until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	if w.Keeper == nil {
		w.Keeper = balancer.NewKeeper("")
	}
	if w.wait == 0 {
		w.wait = waitTime
	}
	w.restore()
	backoff := backoffFirst
	for ctx.Err() == nil {
		err := w.query(ctx)
		if ctx.Err() != nil {
			return
		}
		w.note(err)
		if err == nil || errors.Is(err, errUnbelieved) || errors.Is(err, errUnkept) {
			backoff = backoffFirst
			sleep(ctx, betweenQueries)
			continue
		}
		w.index = 0 // who knows what Consul comes back as
		sleep(ctx, time.Duration(float64(backoff)*(0.75+0.25*rand.Float64())))
		backoff = min(2*backoff, backoffMost)
	}
}

func (w *Watch) restore() {
	kept, err := w.Keeper.Restore()
	if err == nil && len(kept) > 0 {
		err = w.publish(kept)
	}
	if err != nil {
		w.note(err)
	}
}

// What goes wrong though Consul is well.
var (
	errUnbelieved = errors.New("the last good list stays in use")
	errUnkept     = errors.New("the list is in use but not on disk")
)

// query asks once, and publishes the answer if it says something new. That the
// index has grown proves nothing; that it has shrunk means that Consul has begun
// anew, and so do we.
func (w *Watch) query(ctx context.Context) error {
	limit := w.wait + w.wait/16 + graceTime
	if w.index == 0 {
		limit = askTime
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	entries, meta, err := w.Client.api.Health().Service(w.Service.Name, w.Service.Tag, false, w.options().WithContext(ctx))
	if err != nil {
		return w.fault(err)
	}
	if meta.LastIndex < w.index {
		w.index = 0
	} else {
		w.index = max(meta.LastIndex, 1) // an index of 0 would not wait
	}
	return w.take(endpoints(entries), meta)
}

func (w *Watch) options() *api.QueryOptions {
	return &api.QueryOptions{
		Datacenter: w.Service.Datacenter,
		Namespace:  w.Service.Namespace,
		Partition:  w.Service.Partition,
		AllowStale: w.Service.AllowStale,
		WaitIndex:  w.index,
		WaitTime:   w.wait,
	}
}

// fault shortens the client's error, which for a status quotes the body.
func (w *Watch) fault(err error) error {
	if status, ok := errors.AsType[api.StatusError](err); ok {
		return fmt.Errorf("consul service %s: status %d", w.Service.Name, status.Code)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("consul service %s: no answer in time", w.Service.Name)
	}
	return fmt.Errorf("consul service %s: %w", w.Service.Name, err)
}

// take publishes a list that Consul gave.
func (w *Watch) take(given []balancer.Endpoint, meta *api.QueryMeta) error {
	list, changed, saved := w.Keeper.Take(given, time.Now())
	if changed {
		if err := w.publish(list); err != nil {
			return err
		}
	}
	switch {
	case len(given) == 0 && meta.ResultsFilteredByACLs:
		return fmt.Errorf("consul service %s: the token may not read it: %w", w.Service.Name, errUnbelieved)
	case len(given) == 0:
		return fmt.Errorf("consul service %s has no instances: %w", w.Service.Name, errUnbelieved)
	case saved != nil:
		return fmt.Errorf("consul service %s: %w, %w", w.Service.Name, saved, errUnkept)
	}
	return nil
}

func (w *Watch) publish(list []balancer.Endpoint) error {
	if err := w.Publish(list); err != nil {
		return fmt.Errorf("consul service %s: %w", w.Service.Name, err)
	}
	w.mu.Lock()
	w.last.Replicas = len(list)
	w.mu.Unlock()
	return nil
}

// note keeps and tells how the last query went.
func (w *Watch) note(err error) {
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	w.mu.Lock()
	isNew := fault != w.last.Fault
	w.last.Fault = fault
	if err == nil {
		w.last.Answered = time.Now()
	}
	w.mu.Unlock()
	if isNew && w.OnError != nil {
		w.OnError(err)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
