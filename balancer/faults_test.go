package balancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	faultReplicas = 4
	faultRate     = 50                     // requests per second
	faultService  = 800 * time.Millisecond // mean, on a replica that is not crowded
	faultCrowd    = 16                     // requests at once from which a replica slows down
	faultTimeout  = 30 * time.Second       // for the first byte
)

// faultRun is one gateway before some replicas, the first of which is bad.
type faultRun struct {
	*world
	pool     *Pool
	bad      string // how the first is bad
	picks    []int  // attempts by replica
	there    []int
	turn     int
	requests int
	failed   int
	took     []time.Duration // of requests that were answered by a good replica
}

// faultPolicy leases a place for an attempt; tried is the replica before it.
type faultPolicy func(f *faultRun, tried int) (i int, end func(o Outcome, answered bool), ok bool)

func rotation(f *faultRun, _ int) (int, func(Outcome, bool), bool) {
	f.turn++
	return f.turn % faultReplicas, func(Outcome, bool) {}, true
}

func balanced(f *faultRun, tried int) (int, func(Outcome, bool), bool) {
	rs := f.pool.Replicas()
	need := Need{Tokens: 200}
	if tried >= 0 {
		need.Avoid[0] = rs[tried]
	}
	l, err := f.pool.Acquire(context.Background(), need)
	if err != nil {
		return 0, nil, false
	}
	return slices.Index(rs, l.Replica()), func(o Outcome, answered bool) {
		if answered {
			l.FirstByte()
		}
		l.Done(o)
	}, true
}

func runFaults(t *testing.T, choose faultPolicy, bad string) *faultRun {
	f := &faultRun{
		world: newWorld(5), bad: bad,
		picks: make([]int, faultReplicas), there: make([]int, faultReplicas),
	}
	f.pool = f.world.pool(t, faultReplicas)
	if bad == "hangs" {
		w := &watcher{pool: f.pool, replica: f.pool.Replicas()[0]}
		f.every(time.Second, func() { w.found(errors.New("no answer in time")) })
	}
	var arrive func()
	arrive = func() {
		f.requests++
		f.attempt(choose, f.now, -1)
		f.after(f.exponential(time.Second/faultRate), arrive)
	}
	arrive()
	f.run(120 * time.Second)
	return f
}

func (f *faultRun) attempt(choose faultPolicy, began time.Duration, tried int) {
	i, end, ok := choose(f, tried)
	if !ok {
		f.failed++
		return
	}
	f.picks[i]++
	f.there[i]++
	outcome, took := Success, f.exponential(faultService)
	if crowd := f.there[i] - faultCrowd; crowd > 0 {
		took += took * time.Duration(crowd) / faultCrowd
	}
	if i == 0 {
		outcome, took = f.misbehave(took)
	}
	f.after(took, func() {
		f.there[i]--
		end(outcome, outcome == Success)
		switch {
		case outcome == Success && i != 0:
			f.took = append(f.took, f.now-began)
		case outcome != Success && tried < 0 && f.pool.MayRetry(outcome):
			f.attempt(choose, began, i)
		case outcome != Success:
			f.failed++
		}
	})
}

func (f *faultRun) misbehave(took time.Duration) (Outcome, time.Duration) {
	switch f.bad {
	case "fails fast":
		return ReplicaFault, 2 * time.Millisecond
	case "refuses as full":
		return QueueFull, 2 * time.Millisecond
	case "hangs":
		return TimedOut, faultTimeout
	case "is 10 times slower":
		return Success, 10 * took
	}
	return Success, took
}

func (f *faultRun) share() float64 {
	sum := 0
	for _, n := range f.picks {
		sum += n
	}
	return 100 * float64(f.picks[0]) / float64(sum)
}

func (f *faultRun) p99() time.Duration {
	slices.Sort(f.took)
	return f.took[len(f.took)*99/100].Round(10 * time.Millisecond)
}

// TestABadReplicaGetsLittle compares the share of one bad replica of four, and
// what its badness does to the others, with a round robin that retries as well.
func TestABadReplicaGetsLittle(t *testing.T) {
	synctest.Test(t, testBadReplica)
}

func testBadReplica(t *testing.T) {
	var table strings.Builder
	for _, c := range []struct {
		bad   string
		share float64 // percent of all attempts, at most
	}{{"is good", 30}, {"fails fast", 3}, {"refuses as full", 5}, {"hangs", 2}, {"is 10 times slower", 8}} {
		rr, us := runFaults(t, rotation, c.bad), runFaults(t, balanced, c.bad)
		for _, x := range []struct {
			name string
			*faultRun
		}{{"round robin", rr}, {"mete", us}} {
			fmt.Fprintf(&table, "%-20s %-12s %6.1f %% %7d of %d %8s\n", c.bad, x.name, x.share(), x.failed, x.requests, x.p99())
		}
		if us.share() > c.share {
			t.Errorf("a replica that %s got %.1f %% of the attempts, want at most %v", c.bad, us.share(), c.share)
		}
		if us.failed > us.requests/100 || us.p99() > rr.p99()*11/10 {
			t.Errorf("a replica that %s: %d of %d failed, p99 of the others %s (round robin %s)",
				c.bad, us.failed, us.requests, us.p99(), rr.p99())
		}
	}
	t.Logf("one of %d replicas\n%-20s %-12s %8s %15s %8s\n%s", faultReplicas, "", "", "share", "failed", "p99", table.String())
}
