package limits

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"mete/auth"
	"mete/config"
)

// Options is what a Limiter is made of. The zero value of everything below
// Plans is a default.
type Options struct {
	Service string
	Redis   redis.UniversalClient // see Open; stays the caller's to close
	Peppers *auth.Peppers         // nil: no keys but static ones
	Static  *auth.Static          // nil: none
	Plans   map[string]config.Plan

	// Marker is what auth.Store.Mark gave at start. Default: the marker that
	// the store shows first.
	Marker string
	// Saw is told of every key of the store that was let in. It must be quick;
	// auth.Uses.Saw is.
	Saw func(owner, id string)
	// Alarm is told of what somebody should look at: a store that lost its
	// data, Redis going away and coming back. It must be quick.
	Alarm func(Alarm, error)
	// Called is told of every round trip to Redis, for metrics. It must be
	// quick.
	Called func(took time.Duration, err error)

	Timeout  time.Duration // that one call to Redis may take. Default: 50ms
	Lease    time.Duration // a slot outlives a dead gateway by no more. Default: 60s
	Beat     time.Duration // between signs of life to the other gateways. Default: 5s
	Retry    time.Duration // between probes of a Redis that is away. Default: 1s
	Flush    time.Duration // between writes of the usage record. Default: 1s
	KnownFor time.Duration // how old a record may be while Redis is away. Default: 5m
	Callers  int           // how many keys are remembered. Default: 100000
}

// Alarm is an event that Options.Alarm is told of.
type Alarm string

// The alarms.
const (
	RedisAway Alarm = "redis is away: every gateway holds its share of the limits"
	RedisBack Alarm = "redis is back: limits are exact again"
	StoreLost Alarm = "the key store has lost its data"
)

// Limiter decides what callers may use. It is safe for use from many
// goroutines.
type Limiter struct {
	opt     Options
	format  auth.Format
	layout  auth.Layout
	scripts *scripts
	line    *line
	clock   *clock
	callers *generations[auth.Digest, *record]
	setup   atomic.Pointer[setup]
	id      string // of this gateway, new at every start
	lease   any    // Lease in microseconds, boxed
	guess   atomic.Pointer[string]
	marker  atomic.Pointer[string]
	alarmed atomic.Int64 // before when StoreLost is not raised again
	up      atomic.Bool  // Redis may be asked
	away    atomic.Bool  // the alarm about Redis is on
	share   atomic.Pointer[share]
	usage   usageBook
	counts  counts

	accountsMu sync.RWMutex
	accounts   map[accountName]*account

	owing chan struct{} // the keeper has something to bring in
	stop  context.CancelFunc
	work  sync.WaitGroup
}

// setup is what a reload replaces.
type setup struct {
	policies map[string]*policy
	static   *auth.Static
}

// New starts a limiter; Close ends it. Redis need not be there: New waits for it
// no longer than for two calls.
func New(o Options) *Limiter { return newLimiter(o, redisClock) }

func newLimiter(o Options, clockLua func(string) string) *Limiter {
	o.fillDefaults()
	l := &Limiter{
		opt:    o,
		format: auth.NewFormat(o.Service), layout: auth.NewLayout(o.Service),
		scripts: loadScripts(clockLua), clock: newClock(),
		callers:  newGenerations[auth.Digest, *record](o.Callers),
		accounts: map[accountName]*account{},
		id:       newGatewayID(), lease: o.Lease.Microseconds(),
		owing: make(chan struct{}, 1),
	}
	l.line = &line{
		rdb: o.Redis, timeout: o.Timeout, clock: l.clock, breaker: l.newBreaker(),
		ended: l.ended, called: o.Called, kick: make(chan struct{}, 1),
	}
	l.marker.Store(&o.Marker)
	l.share.Store(&share{gateways: 1})
	l.up.Store(true)
	l.Reload(o.Plans, o.Static)
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.begin(ctx)
	l.work.Go(func() { l.keep(ctx) })
	l.work.Go(func() { l.settle(ctx) })
	return l
}

// Reload replaces plans and static keys. Requests that run keep theirs.
func (l *Limiter) Reload(plans map[string]config.Plan, static *auth.Static) {
	if static == nil {
		static, _ = auth.NewStatic(nil) // no keys, no error
	}
	next := &setup{policies: make(map[string]*policy, len(plans)), static: static}
	for name, plan := range plans {
		next.policies[name] = newPolicy(name, plan)
	}
	l.setup.Store(next)
}

// Close writes what waits to be settled and recorded, for at most two seconds
// or until ctx ends, and stops. Grants may still be settled afterwards; Redis
// does not learn of it.
func (l *Limiter) Close(ctx context.Context) {
	l.stop()
	l.work.Wait()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	l.leave(ctx)
}

func (o *Options) fillDefaults() {
	o.Timeout = cmp.Or(o.Timeout, 50*time.Millisecond)
	o.Lease = cmp.Or(o.Lease, time.Minute)
	o.Beat = cmp.Or(o.Beat, 5*time.Second)
	o.Retry = cmp.Or(o.Retry, time.Second)
	o.Flush = cmp.Or(o.Flush, time.Second)
	o.KnownFor = cmp.Or(o.KnownFor, 5*time.Minute)
	o.Callers = cmp.Or(o.Callers, 100_000)
	if o.Saw == nil {
		o.Saw = func(string, string) {}
	}
	if o.Called == nil {
		o.Called = func(time.Duration, error) {}
	}
	if o.Alarm == nil {
		o.Alarm = func(Alarm, error) {}
	}
}

// newBreaker opens after three failed batches in a row or five within a
// second, and lets one probe through after Retry. The keeper probes, so that
// no request has to.
func (l *Limiter) newBreaker() *gobreaker.CircuitBreaker[struct{}] {
	return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name: "redis", MaxRequests: 1, Interval: time.Second, BucketPeriod: 100 * time.Millisecond, Timeout: l.opt.Retry,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.ConsecutiveFailures >= 3 || c.TotalFailures >= 5
		},
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				l.up.Store(false)
				l.nudge()
			}
		},
	})
}

// nudge tells the keeper that there is something to bring in.
func (l *Limiter) nudge() {
	select {
	case l.owing <- struct{}{}:
	default:
	}
}

func newGatewayID() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}
