package balancer

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	breakerWindow  = 10 * time.Second // over which failures are counted, in steps of one second
	breakerTimeout = 5 * time.Second  // open for so long, then one probe
	breakerSample  = 20               // half of so many results or more, and it opens

	defaultFaults = 5 // in a row, and it opens
)

var errFault, errExcluded = errors.New("replica's fault"), errors.New("nobody's fault")

// breaker keeps requests from a replica that fails them.
//
// While it is closed a request asks nothing of it; its result is reported in
// one step when it is known. So a result cannot be lost because the request
// took longer than gobreaker's window, and a request that is never reported
// leaves nothing behind. Only the probe of a half-open breaker holds a place in
// it from the request to its result.
type breaker struct {
	cb       *gobreaker.TwoStepCircuitBreaker[struct{}]
	clock    func() int64
	timeout  time.Duration // how long it stays open
	state    atomic.Int32  // the last gobreaker.State that it told
	retryAt  atomic.Int64  // while open: when a probe may be tried
	probing  atomic.Bool   // a lease holds the probe
	faultAt  atomic.Int64  // the last reported fault; 0 is never
	onChange func()        // set before the first use; called under gobreaker's lock
}

// newBreaker makes a closed breaker that so many faults in a row open for the
// time given; with fewer than one fault nothing ever opens it.
func newBreaker(clock func() int64, faults int, timeout time.Duration) *breaker {
	b := &breaker{clock: clock, timeout: timeout}
	b.cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  1,
		Interval:     breakerWindow,
		BucketPeriod: time.Second,
		Timeout:      timeout,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return faults > 0 && (int(c.ConsecutiveFailures) >= faults ||
				c.Requests >= breakerSample && c.TotalFailures*2 >= c.Requests)
		},
		IsExcluded:    func(err error) bool { return errors.Is(err, errExcluded) },
		OnStateChange: b.changed,
	})
	return b
}

// admits reports whether a request may go through, without taking anything.
func (b *breaker) admits(now int64) bool {
	switch b.now() {
	case gobreaker.StateClosed:
		return true
	case gobreaker.StateOpen:
		return now >= b.retryAt.Load() && !b.probing.Load()
	default:
		return !b.probing.Load()
	}
}

// enter lets a request through. If it goes through as a probe, probe is not
// nil, and must be called exactly once with its result.
func (b *breaker) enter() (probe func(error), ok bool) {
	if b.now() == gobreaker.StateClosed {
		return nil, true
	}
	if !b.probing.CompareAndSwap(false, true) {
		return nil, false
	}
	done, err := b.cb.Allow()
	if err != nil {
		b.retryAt.Store(b.clock() + int64(time.Millisecond))
		b.probing.Store(false)
		return nil, false
	}
	return func(err error) {
		done(err)
		b.probing.Store(false)
	}, true
}

// succeeded reports an answer. With no fault in the window it could change
// nothing, and is not counted.
func (b *breaker) succeeded() {
	last := b.faultAt.Load()
	if last == 0 || b.clock()-last > int64(breakerWindow) || b.now() != gobreaker.StateClosed {
		return
	}
	b.report(nil)
}

// failed reports a fault. In a half-open breaker it is as good as a failed
// probe: the replica has failed just now.
func (b *breaker) failed() {
	b.faultAt.Store(b.clock())
	b.report(errFault)
}

func (b *breaker) report(result error) {
	if done, err := b.cb.Allow(); err == nil {
		done(result)
	}
}

// changed must not ask gobreaker anything: it holds its lock.
func (b *breaker) changed(_ string, _, to gobreaker.State) {
	if to == gobreaker.StateOpen {
		b.retryAt.Store(b.clock() + int64(b.timeout))
	}
	b.state.Store(int32(to))
	if b.onChange != nil {
		b.onChange()
	}
}

func (b *breaker) now() gobreaker.State { return gobreaker.State(b.state.Load()) }
