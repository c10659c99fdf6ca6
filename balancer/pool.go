package balancer

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// ErrNoReplica says that no replica of the pool may take the request now: the
// pool is empty, or every replica is full or to be avoided.
var ErrNoReplica = errors.New("no replica is eligible")

// Options are the knobs of a pool. The zero value is usable.
type Options struct {
	MaxInFlight int64 // leases per replica at once; 0 is no limit
}

// Need says what a request asks of a replica.
type Need struct {
	Tokens int64       // estimated length of the prompt
	Avoid  [2]*Replica // replicas that this request has already tried
}

// Pool is the replicas that serve the same thing.
type Pool struct {
	name    string
	options Options
	random  func() uint64

	updating sync.Mutex // one Update at a time; readers never take it
	replicas atomic.Pointer[[]*Replica]
}

// NewPool makes a pool of the endpoints, which may be none.
func NewPool(name string, endpoints []Endpoint, options Options) (*Pool, error) {
	p := &Pool{name: name, options: options, random: rand.Uint64}
	p.replicas.Store(new([]*Replica))
	return p, p.Update(endpoints)
}

// Name is the pool's name in the configuration.
func (p *Pool) Name() string { return p.name }

// Replicas is the present snapshot, which must not be changed.
func (p *Pool) Replicas() []*Replica { return *p.replicas.Load() }

// Acquire leases a place on the least loaded replica. The caller must end the
// lease with Done on every path. The error is the context's or ErrNoReplica.
func (p *Pool) Acquire(ctx context.Context, need Need) (Lease, error) {
	if err := ctx.Err(); err != nil {
		return Lease{}, err
	}
	tokens := max(need.Tokens, 0)
	for {
		r := p.choose(p.Replicas(), &need)
		if r == nil {
			return Lease{}, ErrNoReplica
		}
		// Somebody may have taken the last place since the choice was made.
		if r.take(p.options.MaxInFlight, tokens) {
			return Lease{replica: r, tokens: tokens}, nil
		}
	}
}

// Update replaces the pool's replicas. Those that stay keep their identity and
// their counters; of two endpoints with the same host and port the first
// counts. On an error nothing changes.
func (p *Pool) Update(endpoints []Endpoint) error {
	p.updating.Lock()
	defer p.updating.Unlock()

	known := make(map[string]*Replica)
	for _, r := range p.Replicas() {
		known[r.URL] = r
	}
	next := make([]*Replica, 0, len(endpoints))
	taken := make(map[string]bool, len(endpoints))
	for _, e := range endpoints {
		r, err := newReplica(e)
		if err != nil {
			return err
		}
		if taken[r.ID] {
			continue
		}
		taken[r.ID] = true
		if stays := known[r.URL]; stays != nil {
			r = stays
		}
		next = append(next, r)
	}
	p.replicas.Store(&next)
	return nil
}
