package balancer

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNoReplica says that no replica of the pool may take the request now: the
// pool is empty, or every replica is held out, full, or to be avoided.
// Pool.Explain says which.
var ErrNoReplica = errors.New("no replica is eligible")

// Options are the knobs of a pool. The zero value is usable.
type Options struct {
	MaxInFlight int64       // leases per replica at once; 0 is no limit
	LearnCap    bool        // give each replica no more than it works on at once, which is learned from what it tells
	Models      []string    // names, as the replicas know them, that each must serve
	APIKey      string      // what the replicas want as a bearer, if anything
	TLS         *tls.Config // for replicas that speak it; nil: the system's authorities
	Queue       QueueOptions

	Interval time.Duration // between two checks of a replica; 0 is a second
	Faults   int           // in a row that open a replica's breaker; 0 is 5, below 0 is never

	// Clock is the time in nanoseconds, above 0 and never going back; nil is the
	// machine's. Random is the source of chance; nil is Go's. With both of its
	// own, and driven through Request and Observe, a pool can be simulated.
	Clock  func() int64
	Random func() uint64

	// OnChange is told of replicas whose state changes and of those that come
	// and go. It must neither block nor ask the pool anything. May be nil.
	OnChange func(Change)
}

// Change is news of one replica.
type Change struct {
	Pool    string
	Replica *Replica
	State   State
	Why     string
}

// Need says what a request asks of a replica.
type Need struct {
	Tokens int64 // estimated length of the prompt
	// Blocks are hashes of the prompt's beginnings, one for each BlockTokens, each
	// covering all that comes before it and everything else that a replica's cache
	// distinguishes. They are read until a replica is chosen. May be nil.
	Blocks []uint64
	Model  string      // a name, such as a LoRA adapter's, that not every replica serves; may be empty
	Output int64       // expected length of the answer, tokens
	Avoid  [2]*Replica // replicas that this request has already tried
	Turn   Turn        // how it waits, if it has to
}

// Pool is the replicas that serve the same thing.
type Pool struct {
	name    string
	options atomic.Pointer[Options]
	random  func() uint64
	clock   func() int64
	budget  budget
	members atomic.Pointer[members]
	queue   queue
	known   prefixes
	speed   rate // of all replicas

	share   atomic.Uint64 // float64: of the traffic there that is ours
	shareAt atomic.Int64  // when that was worked out

	updating sync.Mutex // guards what follows; a choice never takes it
	sources  []source
	lastSlot uint16
	running  context.Context // nil unless Run runs
	watchers map[*Replica]context.CancelFunc
	watching sync.WaitGroup
	isRun    atomic.Bool
}

// NewPool makes a pool of the endpoints, which may be none. Without Run its
// replicas are never checked, and only breakers hold them out.
func NewPool(name string, endpoints []Endpoint, options Options) (*Pool, error) {
	if options.Faults == 0 {
		options.Faults = defaultFaults
	}
	if options.Interval <= 0 {
		options.Interval = defaultInterval
	}
	p := &Pool{name: name, random: rand.Uint64}
	p.options.Store(&options)
	began := time.Now()
	p.clock = func() int64 { return int64(time.Since(began)) + 1 }
	if options.Clock != nil {
		p.clock = options.Clock
	}
	if options.Random != nil {
		p.random = options.Random
	}
	p.share.Store(math.Float64bits(1))
	p.watchers = map[*Replica]context.CancelFunc{}
	p.members.Store(&members{})
	p.queue.begin()
	return p, p.Update(endpoints)
}

// Reconfigure puts other options in force, but for TLS, Interval, Faults, Clock,
// Random and OnChange, which are fixed when a replica comes.
func (p *Pool) Reconfigure(options Options) {
	defer p.serve() // once the lock is free
	p.updating.Lock()
	defer p.updating.Unlock()
	before := p.options.Load()
	options.TLS, options.Interval, options.Faults, options.OnChange = before.TLS, before.Interval, before.Faults, before.OnChange
	p.options.Store(&options)
	all := p.members.Load().all
	for _, r := range all {
		r.set(holdModel, r.missing(options.Models))
		r.reach.learns.Store(options.LearnCap)
	}
	p.arrange(all)
}

// Name is the pool's name in the configuration.
func (p *Pool) Name() string { return p.name }

// Replicas is the present snapshot, which must not be changed.
func (p *Pool) Replicas() []*Replica { return p.members.Load().all }

// Acquire leases a place on the replica that should answer soonest. If all are
// full it waits, as need.Turn says. The caller must end the lease with Done on
// every path. The error is the context's, ErrNoReplica or a *Busy, which is an
// ErrNoReplica too.
func (p *Pool) Acquire(ctx context.Context, need Need) (lease Lease, err error) {
	if err = ctx.Err(); err != nil {
		return
	}
	p.admit(&need)
	if !p.mustWait() && p.tryAcquire(&need, &lease) {
		return
	}
	return p.wait(ctx, need)
}

// admit readies a need, and pays the budget for it.
func (p *Pool) admit(need *Need) {
	need.Tokens, need.Output = max(need.Tokens, 0), max(need.Output, 0)
	if need.Avoid[0] == nil {
		p.budget.earn()
	}
}

// tryAcquire fills in an empty lease if a replica may take the request now.
func (p *Pool) tryAcquire(need *Need, lease *Lease) bool {
	q := p.question(need)
	for {
		m := p.members.Load()
		if len(need.Blocks) > 0 {
			q.look(&p.known, m)
		}
		r := q.choose(m)
		if r == nil {
			return false
		}
		// Since the choice was made somebody may have taken the last place or
		// the breaker's probe.
		uncached, ahead := q.uncached(r), q.work(r)
		if !r.take(r.most(p.options.Load().MaxInFlight, q.now), uncached) {
			continue
		}
		probe, ok := r.breaker.enter()
		if ok {
			lease.pool, lease.replica, lease.tokens, lease.probe = p, r, uncached, probe
			lease.work, lease.sent = ahead.total(), q.now
			r.computed.Add(uint32(uncached+need.Output) / BlockTokens)
			if len(need.Blocks) > 0 {
				p.known.note(need.Blocks, r)
			}
			lease.why = Why{Rank: rankNames[q.came], Of: len(m.ready), InFlight: r.inFlight.Load()}
			return true
		}
		r.give(uncached)
	}
}

// MayRetry reports whether a request whose attempt ended so may be tried on
// another replica, and takes the retry out of the pool's budget: 15 % of its
// requests and a few on credit. A refused connection costs nothing, since it
// cost no replica anything. Whether a byte has been sent, or the client has
// left, is for the caller to know.
func (p *Pool) MayRetry(o Outcome) bool {
	switch o {
	case ConnectFailed, Unused:
		return true
	case QueueFull, ReplicaFault, TimedOut:
		return p.budget.spend(p.clock())
	default:
		return false
	}
}

// Run checks the replicas and reads their load until ctx ends, and returns when
// all of that has stopped. It may be called once.
func (p *Pool) Run(ctx context.Context) {
	p.updating.Lock()
	p.running = ctx
	p.isRun.Store(true)
	p.watch()
	p.updating.Unlock()
	<-ctx.Done()
	p.watching.Wait()
}

func (p *Pool) question(need *Need) question {
	return question{
		need: need, now: p.clock(), random: p.random, limit: p.options.Load().MaxInFlight,
		share: math.Float64frombits(p.share.Load()), prior: p.prior(),
	}
}

func (p *Pool) watched() bool { return p.isRun.Load() }

// heed draws the conclusions, beside the breaker's, from how a request ended.
func (p *Pool) heed(r *Replica, o Outcome) {
	switch o {
	case QueueFull:
		r.fullTill.Store(p.clock() + int64(fullPause))
		r.reach.refused(r.inFlight.Load(), p.clock())
	case ConnectFailed:
		if p.watched() {
			p.hold(r, holdRefused, "a request found no connection")
			r.checkSoon()
		}
	case ReplicaFault, TimedOut:
		r.checkSoon()
	}
}
