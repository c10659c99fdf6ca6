package balancer

import (
	"math"
	"sync"
	"time"
)

const (
	drainEvery  = 250 * time.Millisecond // between two samples, at least
	drainMemory = 5 * time.Second        // time constant of the means
)

// drain learns how fast a pool ends requests, from counters that are kept
// anyway. By Little's law the mean duration of a request is the mean number
// under way over the rate of ends; so the rate with another number under way
// can be told, as far as the duration stays the same.
type drain struct {
	mu   sync.Mutex
	at   int64 // of the last sample; 0 is never
	ends uint64
	rate float64 // ends a second
	busy float64 // under way, the mean
}

// sample takes in the counters, unless it was called a moment ago.
func (d *drain) sample(now int64, ends uint64, underWay int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	since, counted := d.at, d.ends
	passed := now - since
	if since != 0 && passed < int64(drainEvery) {
		return
	}
	d.at, d.ends = now, ends
	if since == 0 || ends < counted { // the first, or a replica has gone and took its counters along
		return
	}
	seconds := float64(passed) / float64(time.Second)
	rate := float64(ends-counted) / seconds
	if d.busy == 0 {
		d.rate, d.busy = rate, float64(underWay)
		return
	}
	gain := 1 - math.Exp(-seconds/drainMemory.Seconds())
	d.rate += gain * (rate - d.rate)
	d.busy += gain * (float64(underWay) - d.busy)
}

// perSecond is how many requests will end in a second with so many under way; 0
// while that is not known.
func (d *drain) perSecond(underWay int64) float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy <= 0 {
		return 0
	}
	return d.rate * float64(underWay) / d.busy
}

// due reports whether it is time for a sample.
func (d *drain) due(now int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at == 0 || now-d.at >= int64(drainEvery)
}

// learnDrain samples the pool's counters.
func (p *Pool) learnDrain(now int64) {
	if !p.queue.drain.due(now) {
		return
	}
	ends, underWay := uint64(0), int64(0)
	for _, r := range p.Replicas() {
		underWay += r.InFlight()
		for _, o := range [...]Outcome{Success, ClientLeft, CallerError, ReplicaFault, TimedOut} {
			ends += r.Ended(o)
		}
	}
	p.queue.drain.sample(now, ends, underWay)
}
