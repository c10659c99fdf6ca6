package balancer

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestALeaseEndsOnce(t *testing.T) {
	p := newPool(t, 1, Options{})
	r := p.Replicas()[0]
	l := mustAcquire(t, p, Need{Tokens: 7})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { l.FirstByte(); l.Done(ClientLeft) })
	}
	wg.Wait()
	l.FirstByte()
	l.Done(Success)
	if r.InFlight() != 0 || r.Prefill() != 0 {
		t.Errorf("in flight %d, prefill %d; want 0, 0", r.InFlight(), r.Prefill())
	}
	if r.Ended(ClientLeft) != 1 || r.Ended(Success) != 0 {
		t.Errorf("endings: client_left %d, success %d; want 1, 0", r.Ended(ClientLeft), r.Ended(Success))
	}
}

func TestTheZeroLeaseHoldsNothing(t *testing.T) {
	var l Lease
	l.FirstByte()
	l.Done(Success)
	if l.Replica() != nil {
		t.Error("the zero lease names a replica")
	}
}

func TestEveryOutcomeHasAName(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range Outcomes() {
		if o.String() == "" || seen[o.String()] {
			t.Errorf("outcome %d is named %q", o, o)
		}
		seen[o.String()] = true
	}
}

// TestAPlaceLimitHolds has many goroutines race for few places.
func TestAPlaceLimitHolds(t *testing.T) {
	for range 200 {
		var r Replica
		var taken atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if r.take(5, 0) {
					taken.Add(1)
				}
			})
		}
		wg.Wait()
		if taken.Load() != 5 || r.InFlight() != 5 {
			t.Fatalf("%d of 16 took a place, %d in flight; want 5, 5", taken.Load(), r.InFlight())
		}
	}
}
