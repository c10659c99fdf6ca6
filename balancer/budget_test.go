package balancer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestADeadPoolIsNotStormed sends 200 requests a second for a minute to
// replicas which fail them all, each retried as often as the pool allows.
func TestADeadPoolIsNotStormed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests = 200 * 60
		for _, breakers := range []bool{true, false} {
			p := newPool(t, 3, Options{})
			attempts := 0
			for range requests {
				time.Sleep(time.Second / 200)
				attempts += tryAll(p, breakers)
			}
			perRequest := float64(attempts) / requests
			t.Logf("breakers %v: %.3f attempts per request", breakers, perRequest)
			const credit = -budgetDebt / budgetRetry
			if attempts > requests*12/10+credit {
				t.Errorf("breakers %v: %.3f attempts per request, want at most 1.2", breakers, perRequest)
			}
			if !breakers && perRequest < 1.14 {
				t.Errorf("%.3f attempts per request: the budget is not used", perRequest)
			}
		}
	})
}

// tryAll makes one request fail wherever it may be tried.
func tryAll(p *Pool, breakers bool) (attempts int) {
	need := Need{}
	for i := 0; ; i++ {
		if !breakers {
			for _, r := range p.Replicas() {
				r.breaker = newBreaker(p.clock, -1, 0)
			}
		}
		l, err := p.Acquire(context.Background(), need)
		if err != nil {
			return attempts
		}
		attempts++
		l.Done(ReplicaFault)
		if i == len(need.Avoid) || !p.MayRetry(ReplicaFault) {
			return attempts
		}
		need.Avoid[i] = l.Replica()
	}
}

func TestWhatMayBeRetried(t *testing.T) {
	for _, c := range []struct {
		outcome Outcome
		may     bool
		free    bool
	}{
		{Success, false, true},
		{ClientLeft, false, true},
		{CallerError, false, true},
		{Unused, true, true},
		{ConnectFailed, true, true},
		{QueueFull, true, false},
		{ReplicaFault, true, false},
		{TimedOut, true, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, 1, Options{})
			allowed := 0
			for range 100 {
				if p.MayRetry(c.outcome) {
					allowed++
				}
			}
			want := 0
			if c.may {
				want = budgetFloor
			}
			if c.may && c.free {
				want = 100
			}
			if allowed != want {
				t.Errorf("%s: %d of 100 retries allowed at once, want %d", c.outcome, allowed, want)
			}
		})
	}
}

func TestAQuietPoolMayRetryOnCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 1, Options{})
		for i := range 100 {
			if !p.MayRetry(TimedOut) {
				t.Fatalf("retry %d, one in a second, was not allowed", i)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestTheBudgetIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 1, Options{})
		for range 10_000 {
			mustAcquire(t, p, Need{}).Done(Success)
		}
		allowed := 0
		for p.MayRetry(ReplicaFault) {
			allowed++
		}
		if want := budgetMost/budgetRetry + budgetFloor; allowed > want || allowed < 100 {
			t.Errorf("%d retries at once, want 100 to %d", allowed, want)
		}
	})
}
