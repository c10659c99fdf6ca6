package balancer

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"
)

// TestNothingLeaks ends a million leases in every way there is, on replicas
// that come, go and fail meanwhile: all counts must be back at zero, and no
// probe may be lost.
func TestNothingLeaks(t *testing.T) {
	leases := 1_000_000
	if raceDetector || testing.Short() {
		leases /= 20
	}
	p, err := NewPool("general", Static(urls(12)), Options{MaxInFlight: 64})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range p.Replicas()[:4] { // those that stay see many probes
		r.breaker = newBreaker(p.clock, defaultFaults, time.Millisecond)
	}
	seen := map[*Replica]bool{}
	const workers = 8
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { leakWorker(t, p, rand.New(rand.NewPCG(uint64(w), 3)), leases/workers) })
	}
	for i := range 200 {
		for _, r := range p.Replicas() {
			seen[r] = true
		}
		if err := p.Update(Static(urls(4 + i%9))); err != nil {
			t.Fatal(err)
		}
		r := p.Replicas()[i%4]
		p.hold(r, holdCheck, "unlucky")
		p.hold(r, holdCheck, "")
	}
	wg.Wait()
	for _, r := range p.Replicas() {
		seen[r] = true
	}
	ended := uint64(0)
	for r := range seen {
		if r.InFlight() != 0 || r.Prefill() != 0 || r.breaker.probing.Load() {
			t.Errorf("%s: in flight %d, prefill %d, probing %v", r.ID, r.InFlight(), r.Prefill(), r.breaker.probing.Load())
		}
		for _, o := range Outcomes() {
			ended += r.Ended(o)
		}
		checkProbe(t, r)
	}
	if ended != uint64(leases) {
		t.Errorf("%d leases ended, want %d", ended, leases)
	}
}

// leakWorker holds some leases at a time and ends them at random.
func leakWorker(t *testing.T, p *Pool, random *rand.Rand, leases int) {
	last := time.Now() // when there was a lease to be had
	held := make([]Lease, 16)
	for got := 0; got < leases; {
		l := &held[random.IntN(len(held))]
		o := Outcome(random.IntN(outcomes))
		if random.IntN(2) == 0 {
			l.FirstByte()
		}
		l.Done(o)
		if random.IntN(8) == 0 {
			l.Done(Success) // a second end, which must not count
		}
		next, err := p.Acquire(context.Background(), Need{Tokens: int64(random.IntN(5000))})
		if err != nil {
			for i := range held {
				held[i].Done(ReplicaFault)
			}
			if time.Since(last) > 20*time.Second {
				t.Errorf("no lease for 20 s: a probe is lost")
				return
			}
			runtime.Gosched() // until a breaker lets a probe through
			continue
		}
		got++
		if got%1000 == 0 {
			last = time.Now()
		}
		reset(l, &next)
	}
	for i := range held {
		held[i].Done(Success)
	}
}

// reset moves a lease which nobody has used yet.
func reset(to, from *Lease) {
	to.pool, to.replica, to.tokens, to.probe = from.pool, from.replica, from.tokens, from.probe
	to.stage.Store(leaseHeld)
}

// checkProbe looks into gobreaker: half-open with a probe out, it would stay so
// for ever.
func checkProbe(t *testing.T, r *Replica) {
	if r.breaker.cb.State() != gobreaker.StateHalfOpen {
		return
	}
	if c := r.breaker.cb.Counts(); c.Requests != c.TotalExclusions+c.TotalSuccesses+c.TotalFailures {
		t.Errorf("%s: a probe was never reported: %+v", r.ID, c)
	}
}
