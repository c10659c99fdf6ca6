package balancer

import (
	"context"
	"errors"
	"testing"
)

func TestTheLeastLoadedOfFewIsChosen(t *testing.T) {
	p := newPool(t, 3, Options{})
	rs := p.Replicas()
	rs[0].take(0, 0)
	rs[2].take(0, 0)
	for range 20 {
		l := mustAcquire(t, p, Need{})
		if l.Replica() != rs[1] {
			t.Fatalf("chose %s, want the idle %s", l.Replica().ID, rs[1].ID)
		}
		l.Done(Success)
	}
}

func TestEqualReplicasShareEvenly(t *testing.T) {
	const leases = 8000
	for _, n := range []int{2, 8, 40} {
		p := newPool(t, n, Options{})
		got := map[*Replica]int{}
		for range leases {
			l := mustAcquire(t, p, Need{})
			got[l.Replica()]++
			l.Done(Success)
		}
		for _, r := range p.Replicas() {
			if want := leases / n; got[r] < want*7/10 || got[r] > want*13/10 {
				t.Errorf("%d idle replicas: %s got %d of %d, want about %d", n, r.ID, got[r], leases, want)
			}
		}
	}
}

func TestTwoChoicesKeepALargePoolEven(t *testing.T) {
	p := newPool(t, 100, Options{})
	for range 3000 {
		mustAcquire(t, p, Need{})
	}
	for _, r := range p.Replicas() {
		// One random choice would leave some replica at 45 or more.
		if n := r.InFlight(); n > 34 {
			t.Errorf("%s has %d in flight, want about 30", r.ID, n)
		}
	}
}

func TestAPromptWeighsUntilItIsAnswered(t *testing.T) {
	p := newPool(t, 2, Options{})
	long := mustAcquire(t, p, Need{Tokens: 100_000})
	for range 20 {
		if l := mustAcquire(t, p, Need{Tokens: 20}); l.Replica() == long.Replica() {
			t.Fatal("a short request was put behind the long prompt")
		}
	}
	long.FirstByte()
	if l := mustAcquire(t, p, Need{}); l.Replica() != long.Replica() {
		t.Error("the answered prompt still weighs")
	}
}

func TestWhoMayNotBeChosenIsNot(t *testing.T) {
	for _, n := range []int{1, 3, 12} {
		p := newPool(t, n, Options{MaxInFlight: 2})
		rs := p.Replicas()
		need := Need{Avoid: [2]*Replica{rs[0], rs[n/2]}}
		eligible := n - 2
		if n == 1 {
			eligible = 0
		}
		for range eligible * 2 {
			if r := mustAcquire(t, p, need).Replica(); r == rs[0] || r == rs[n/2] {
				t.Fatalf("%d replicas: chose %s, which was to be avoided", n, r.ID)
			}
		}
		if _, err := p.Acquire(context.Background(), need); !errors.Is(err, ErrNoReplica) {
			t.Errorf("%d replicas, all full or to be avoided: got %v, want ErrNoReplica", n, err)
		}
	}
}

func TestAnEmptyPoolHasNoReplica(t *testing.T) {
	p := newPool(t, 0, Options{})
	if _, err := p.Acquire(context.Background(), Need{}); !errors.Is(err, ErrNoReplica) {
		t.Errorf("got %v, want ErrNoReplica", err)
	}
}

func TestNobodyIsLeasedForAClientThatHasLeft(t *testing.T) {
	p := newPool(t, 1, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := p.Acquire(ctx, Need{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if n := p.Replicas()[0].InFlight(); n != 0 {
		t.Errorf("%d in flight, want 0", n)
	}
}

func TestChoiceAllocatesNothing(t *testing.T) {
	for _, n := range []int{3, 1000} {
		p := newPool(t, n, Options{MaxInFlight: 4096})
		knowAll(p)
		ctx := context.Background()
		got := testing.AllocsPerRun(1000, func() {
			l, _ := p.Acquire(ctx, Need{Tokens: 100})
			l.FirstByte()
			l.Done(Success)
		})
		if got != 0 {
			t.Errorf("%d replicas: %v allocations per lease, want 0", n, got)
		}
	}
}

// knowAll gives every replica a fresh load.
func knowAll(p *Pool) {
	for i, r := range p.Replicas() {
		r.signal.told(Load{Running: float64(i % 9), Waiting: 1, KV: 0.5}, 0, p.clock(), "metrics")
	}
	p.weighShare()
}

// openMost opens the breakers of all replicas but every tenth.
func openMost(p *Pool) {
	knowAll(p)
	for i, r := range p.Replicas() {
		for range defaultFaults {
			if i%10 != 0 {
				r.breaker.failed()
			}
		}
	}
}

func BenchmarkAcquire(b *testing.B) {
	for _, c := range []struct {
		name  string
		n     int
		setUp func(*Pool)
	}{
		{"8_replicas", 8, func(*Pool) {}},
		{"8_replicas_that_tell_their_load", 8, knowAll},
		{"1000_replicas", 1000, func(*Pool) {}},
		{"1000_replicas_that_tell_their_load", 1000, knowAll},
		{"1000_replicas_most_of_them_open", 1000, openMost},
	} {
		b.Run(c.name, func(b *testing.B) {
			p, err := NewPool("general", Static(urls(c.n)), Options{MaxInFlight: 4096})
			if err != nil {
				b.Fatal(err)
			}
			c.setUp(p)
			ctx := context.Background()
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				l, err := p.Acquire(ctx, Need{Tokens: 100})
				if err != nil {
					b.Fatal(err)
				}
				l.FirstByte()
				l.Done(Success)
			}
		})
	}
}
