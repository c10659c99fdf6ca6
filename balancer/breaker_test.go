package balancer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"
)

// end leases the only replica of p once for each outcome and ends it so.
func end(t *testing.T, p *Pool, all ...Outcome) {
	t.Helper()
	for _, o := range all {
		mustAcquire(t, p, Need{}).Done(o)
	}
}

func stateOf(p *Pool) gobreaker.State { return p.Replicas()[0].breaker.now() }

func TestWhatOpensABreaker(t *testing.T) {
	f, ok := ReplicaFault, Success
	for _, c := range []struct {
		name string
		ends []Outcome
		want gobreaker.State
	}{
		{"five faults in a row", []Outcome{f, f, f, f, f}, gobreaker.StateOpen},
		{"time-outs and refused connections", []Outcome{TimedOut, ConnectFailed, TimedOut, ConnectFailed, f}, gobreaker.StateOpen},
		{"four faults and a success", []Outcome{f, f, f, f, ok, f}, gobreaker.StateClosed},
		{"refusals of wrong requests", repeat(CallerError, 50), gobreaker.StateClosed},
		{"a full queue", repeat(QueueFull, 50), gobreaker.StateClosed},
		{"clients that leave", repeat(ClientLeft, 50), gobreaker.StateClosed},
		{"leases not used", repeat(Unused, 50), gobreaker.StateClosed},
		{"clients that leave between faults", []Outcome{f, f, ClientLeft, f, CallerError, f, Unused, f}, gobreaker.StateOpen},
		{"half of more than twenty", repeatAll(11, f, ok), gobreaker.StateOpen},
		{"a third of many", repeatAll(30, f, ok, ok), gobreaker.StateClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPool(t, 1, Options{})
				for _, o := range c.ends {
					l, err := p.Acquire(context.Background(), Need{})
					if err != nil {
						break
					}
					l.Done(o)
				}
				if got := stateOf(p); got != c.want {
					t.Errorf("breaker is %s, want %s", got, c.want)
				}
			})
		})
	}
}

func repeat(o Outcome, n int) []Outcome { return repeatAll(n, o) }

func repeatAll(n int, all ...Outcome) []Outcome {
	var list []Outcome
	for range n {
		list = append(list, all...)
	}
	return list
}

func TestABreakerMayBeSwitchedOff(t *testing.T) {
	p := newPool(t, 1, Options{Faults: -1})
	end(t, p, repeat(ReplicaFault, 100)...)
	if got := stateOf(p); got != gobreaker.StateClosed {
		t.Errorf("breaker is %s, want closed", got)
	}
}

func TestAnOpenBreakerLetsOneProbeThrough(t *testing.T) {
	for _, c := range []struct {
		outcome Outcome
		want    gobreaker.State
	}{
		{Success, gobreaker.StateClosed},
		{ReplicaFault, gobreaker.StateOpen},
		{ClientLeft, gobreaker.StateHalfOpen},
		{CallerError, gobreaker.StateHalfOpen},
		{QueueFull, gobreaker.StateHalfOpen},
		{Unused, gobreaker.StateHalfOpen},
	} {
		t.Run(c.outcome.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testProbe(t, c.outcome, c.want) })
		})
	}
}

func testProbe(t *testing.T, outcome Outcome, want gobreaker.State) {
	p := newPool(t, 1, Options{})
	end(t, p, repeat(ReplicaFault, 5)...)
	mustNot := func(when string) {
		t.Helper()
		if _, err := p.Acquire(context.Background(), Need{}); !errors.Is(err, ErrNoReplica) {
			t.Fatalf("%s: got %v, want ErrNoReplica", when, err)
		}
	}
	mustNot("just opened")
	time.Sleep(breakerTimeout + time.Millisecond)
	probe := mustAcquire(t, p, Need{})
	mustNot("while the probe is out")
	probe.Done(outcome)
	probe.Done(Success)
	if got := stateOf(p); got != want {
		t.Fatalf("after the probe the breaker is %s, want %s", got, want)
	}
	if want != gobreaker.StateOpen {
		mustAcquire(t, p, Need{}).Done(Success)
		if got := stateOf(p); got != gobreaker.StateClosed {
			t.Errorf("after a success the breaker is %s", got)
		}
	}
}

func TestAProbeIsJudgedByItsFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 1, Options{})
		end(t, p, repeat(ReplicaFault, 5)...)
		time.Sleep(breakerTimeout + time.Millisecond)
		probe := mustAcquire(t, p, Need{})
		probe.FirstByte()
		if got := stateOf(p); got != gobreaker.StateClosed {
			t.Errorf("the breaker is %s while the probe's stream runs, want closed", got)
		}
		probe.Done(ClientLeft)
	})
}

// TestALongStreamsResultIsNotLost has streams that run longer than the
// breaker's window and then die: each death must count.
func TestALongStreamsResultIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 1, Options{})
		var leases []*Lease
		for range 5 {
			l := mustAcquire(t, p, Need{})
			l.FirstByte()
			leases = append(leases, l)
		}
		time.Sleep(10 * breakerWindow)
		for _, l := range leases {
			l.Done(ReplicaFault)
		}
		if got := stateOf(p); got != gobreaker.StateOpen {
			t.Errorf("after five deaths the breaker is %s, want open", got)
		}
	})
}

// TestAFirstByteAfterTheWindowCounts has an answer that takes longer than the
// window to begin, in the middle of faults.
func TestAFirstByteAfterTheWindowCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 1, Options{})
		slow := mustAcquire(t, p, Need{})
		time.Sleep(3 * breakerWindow)
		end(t, p, repeat(ReplicaFault, 4)...)
		slow.FirstByte()
		end(t, p, ReplicaFault)
		if got := stateOf(p); got != gobreaker.StateClosed {
			t.Errorf("the breaker is %s, want closed: the success broke the row", got)
		}
		slow.Done(Success)
	})
}

func TestOldFaultsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 1, Options{})
		for range 10 {
			end(t, p, repeatAll(3, ReplicaFault, Success)...)
			time.Sleep(2 * breakerWindow)
		}
		if got := stateOf(p); got != gobreaker.StateClosed {
			t.Errorf("the breaker is %s, want closed", got)
		}
	})
}

func TestTheOthersTakeOverFromAnOpenBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []State
		p := newPool(t, 3, Options{OnChange: func(c Change) { told = append(told, c.State) }})
		told = nil
		bad := p.Replicas()[0]
		for range 5 {
			bad.take(0, 0)
			l := Lease{pool: p, replica: bad}
			l.Done(ReplicaFault)
		}
		for range 20 {
			if l := mustAcquire(t, p, Need{}); l.Replica() == bad {
				t.Fatal("the open replica was chosen")
			}
		}
		if state, _ := bad.State(); state != StateOpen || len(told) != 1 || told[0] != StateOpen {
			t.Errorf("state %s, told %v; want open, told once", state, told)
		}
	})
}
