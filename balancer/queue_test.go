package balancer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// asking is a request that waits, or what came of it.
type asking struct {
	*Waiter
	lease *Lease
	err   error
	calls int
}

func ask(p *Pool, need Need) *asking {
	a := &asking{}
	a.Waiter = p.Request(need, func(l *Lease, err error) {
		a.lease, a.err = l, err
		a.calls++
	})
	return a
}

// fullPool is a pool of one replica with so many places, all of them taken.
func fullPool(t *testing.T, places int, o QueueOptions) (*Pool, []*Lease) {
	t.Helper()
	p := newPool(t, 1, Options{MaxInFlight: int64(places), Queue: o})
	leases := make([]*Lease, places)
	for i := range leases {
		leases[i] = mustAcquire(t, p, Need{})
	}
	return p, leases
}

func turnOf(caller string) Need {
	return Need{Tokens: 100, Turn: Turn{Caller: caller, Wait: time.Hour}}
}

func TestWhoseTurnItIs(t *testing.T) {
	with := func(caller string, change func(*Need)) Need {
		n := turnOf(caller)
		change(&n)
		return n
	}
	within := func(d time.Duration) func(*Need) { return func(n *Need) { n.Turn.Within = d } }
	for _, c := range []struct {
		name  string
		needs []Need
		want  []int // in which order they are served, by their place in needs
	}{
		{"of one caller, first come, first served", []Need{turnOf("a"), turnOf("a"), turnOf("a")}, []int{0, 1, 2}},
		{"two callers take turns, and who has fewer waiting begins", []Need{turnOf("a"), turnOf("a"), turnOf("a"), turnOf("b"), turnOf("b")}, []int{3, 0, 4, 1, 2}},
		{"a request of twice the tokens is two turns",
			[]Need{with("a", func(n *Need) { n.Output = 100 }), turnOf("a"), turnOf("b"), turnOf("b"), turnOf("b")}, []int{0, 2, 3, 1, 4}},
		{"a caller of weight two has two turns",
			[]Need{with("a", func(n *Need) { n.Turn.Weight = 2 }), with("a", func(n *Need) { n.Turn.Weight = 2 }), turnOf("b"), turnOf("b"), with("a", func(n *Need) { n.Turn.Weight = 2 })},
			[]int{2, 0, 1, 3, 4}},
		{"the shortest deadline of a caller, and then those without",
			[]Need{turnOf("a"), with("a", within(time.Minute)), with("a", within(time.Second))}, []int{2, 1, 0}},
		{"a deadline gets no caller before another", []Need{turnOf("b"), turnOf("a"), with("a", within(time.Second))}, []int{0, 2, 1}},
		{"the higher priority first", []Need{turnOf("a"), with("b", func(n *Need) { n.Turn.Priority = 1 }), with("c", func(n *Need) { n.Turn.Priority = 1 })}, []int{1, 2, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, leases := fullPool(t, 1, QueueOptions{})
			var asked []*asking
			for _, need := range c.needs {
				asked = append(asked, ask(p, need))
			}
			if view := p.Queue(10); len(view.Waiting) != len(c.needs) || view.Waiting[0].Reason == "" {
				t.Errorf("the view shows %+v", view.Waiting)
			}
			lease := leases[0]
			var got []int
			for range c.want {
				lease.Done(Success)
				for i, a := range asked {
					if a.lease != nil && a.calls == 1 {
						got, lease, a.calls = append(got, i), a.lease, 2
					}
				}
			}
			lease.Done(Success)
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("served %v, want %v", got, c.want)
			}
			if n := p.Replicas()[0].InFlight(); n != 0 || p.QueueLength() != 0 {
				t.Errorf("%d in flight and %d waiting are left", n, p.QueueLength())
			}
		})
	}
}

func TestARetryGoesToTheFront(t *testing.T) {
	p := newPool(t, 2, Options{MaxInFlight: 1})
	a, b := mustAcquire(t, p, Need{}), mustAcquire(t, p, Need{})
	first := ask(p, turnOf("a"))
	need := turnOf("b")
	need.Avoid[0] = a.Replica()
	retry := ask(p, need)
	a.Done(Success)
	if retry.calls != 0 || first.calls != 1 {
		t.Fatal("the place on the replica that the retry must avoid was not for the other")
	}
	second := ask(p, turnOf("a"))
	b.Done(Success)
	if retry.calls != 1 || second.calls != 0 {
		t.Error("the retry was not the first")
	}
	for _, x := range []*asking{first, retry} {
		x.lease.Done(Success)
	}
	second.lease.Done(Success)
}

// TestTheLowestClassDoesNotStarve keeps the highest class busy all the time.
func TestTheLowestClassDoesNotStarve(t *testing.T) {
	p, leases := fullPool(t, 1, QueueOptions{})
	low := ask(p, turnOf("low"))
	lease := leases[0]
	high := turnOf("high")
	high.Turn.Priority = 9
	asked := []*asking{ask(p, high)}
	for turn := 1; low.calls == 0; turn++ {
		if turn > agingTurn+1 {
			t.Fatal("the low class has waited for more than its turn")
		}
		asked = append(asked, ask(p, high))
		lease.Done(Success)
		for _, a := range asked {
			if a.calls == 1 {
				lease, a.calls = a.lease, 2
			}
		}
	}
}

// TestRequestsThatNoFreeReplicaServesHoldNobodyUp, however many they are: they
// cost their caller nothing, so it stays the first.
func TestRequestsThatNoFreeReplicaServesHoldNobodyUp(t *testing.T) {
	p := newPool(t, 0, Options{MaxInFlight: 1})
	if err := p.Update([]Endpoint{{URL: "http://a:1", Models: []string{"adapter"}}, {URL: "http://b:1", Models: []string{"other"}}}); err != nil {
		t.Fatal(err)
	}
	leases := map[string]*Lease{}
	for range 2 {
		l := mustAcquire(t, p, Need{})
		leases[l.Replica().ID] = l
	}
	var many []*asking
	for range 3 * passOwn {
		need := turnOf("a")
		need.Model = "adapter"
		many = append(many, ask(p, need))
	}
	free := leases["b:1"]
	for i := range 3 {
		other := ask(p, turnOf("b"))
		free.Done(Success)
		if other.calls != 1 || other.err != nil {
			t.Fatalf("request %d of the other caller was called %d times, %v", i, other.calls, other.err)
		}
		free = other.lease
	}
	free.Done(Success)
	leases["a:1"].Done(Success)
	for i, a := range many {
		if a.calls != 1 || a.lease == nil {
			t.Fatalf("request %d was called %d times", i, a.calls)
		}
		a.lease.Done(Success)
	}
}

func TestWhatACallerWasChargedIsCorrected(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*Lease)
		want float64 // what the caller has had
	}{
		{"as expected where nobody says", func(l *Lease) { l.Done(Success) }, 100},
		{"what it took", func(l *Lease) { l.Used(1000); l.Done(Success) }, 1000},
		{"nothing for a replica's fault", func(l *Lease) { l.Used(1000); l.Done(ReplicaFault) }, 0},
	} {
		p, leases := fullPool(t, 2, QueueOptions{})
		a := ask(p, turnOf("a"))
		leases[0].Done(Success)
		ask(p, turnOf("a")) // the busy time goes on
		leases[1].Used(7)   // never waited, is not charged
		other := ask(p, turnOf("b"))
		c.end(a.lease)
		had := a.lease.payer.counter
		if had != c.want {
			t.Errorf("%s: the caller has had %v, want %v", c.name, had, c.want)
		}
		_ = other
	}
}

func TestWhenARequestIsRefused(t *testing.T) {
	var busy *Busy
	p, leases := fullPool(t, 1, QueueOptions{MaxLength: 3, MaxPerCaller: 2})
	if _, err := p.Acquire(t.Context(), Need{}); !errors.As(err, &busy) || !errors.Is(err, ErrNoReplica) || busy.RetryAfter <= 0 {
		t.Errorf("one that will not wait: %v", err)
	}
	ask(p, turnOf("a"))
	ask(p, turnOf("a"))
	if a := ask(p, turnOf("a")); a.calls != 1 || !errors.As(a.err, &busy) || !busy.Own {
		t.Errorf("one more than a caller may: %v", a.err)
	}
	ask(p, turnOf("b"))
	if a := ask(p, turnOf("c")); a.calls != 1 || !errors.As(a.err, &busy) || busy.Own {
		t.Errorf("one more than may wait: %v", a.err)
	}
	if c := p.Queue(0).Counts; c.Refused != 3 {
		t.Errorf("%d refused, want 3", c.Refused)
	}
	empty := newPool(t, 0, Options{})
	if a := ask(empty, turnOf("a")); !errors.Is(a.err, ErrNoReplica) || errors.As(a.err, &busy) && a.err == busy {
		t.Errorf("an empty pool: %v", a.err)
	}
	leases[0].Done(Success)
}

// TestThePredictedWaitDecides ends ten requests a second: who waits behind 40
// waits four seconds.
func TestThePredictedWaitDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, leases := fullPool(t, 10, QueueOptions{})
		next := 0
		served := func() { // one every 100 ms
			time.Sleep(100 * time.Millisecond)
			lease := leases[next%10]
			lease.Done(Success)
			leases[next%10] = mustAcquire(t, p, Need{})
			next++
			p.learnDrain(p.clock())
		}
		for range 100 {
			served()
		}
		for range 40 {
			ask(p, turnOf("a"))
		}
		need := turnOf("a")
		need.Turn.Wait = 3 * time.Second
		var busy *Busy
		if a := ask(p, need); !errors.As(a.err, &busy) {
			t.Fatalf("behind 40, and let wait: %v", a.err)
		}
		if d := busy.Wait - 4100*time.Millisecond; d.Abs() > 500*time.Millisecond {
			t.Errorf("the predicted wait is %s, want about 4.1s", busy.Wait)
		}
		if d := busy.RetryAfter - 1100*time.Millisecond; d.Abs() > 500*time.Millisecond {
			t.Errorf("retry after %s, want about 1.1s", busy.RetryAfter)
		}
		need.Turn.Wait = 5 * time.Second
		if a := ask(p, need); a.calls != 0 {
			t.Errorf("would wait for longer than that, but was refused: %v", a.err)
		}
		need.Turn = Turn{Caller: "b", Wait: time.Second} // has had nothing yet
		if a := ask(p, need); a.calls != 0 {
			t.Errorf("another caller was refused for the first one's requests: %v", a.err)
		}
		need.Turn = Turn{Caller: "a", Wait: Forever}
		if a := ask(p, need); a.calls != 0 {
			t.Errorf("who is never refused was: %v", a.err)
		}
	})
}

func TestWaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, leases := fullPool(t, 1, QueueOptions{})
		var busy *Busy
		need := turnOf("a")
		need.Turn.Wait = time.Second
		began := time.Now()
		if _, err := p.Acquire(t.Context(), need); !errors.As(err, &busy) {
			t.Errorf("at the end of its wait: %v", err)
		}
		if took := time.Since(began); took < time.Second || took > time.Second+queuePoll {
			t.Errorf("waited %s, want 1s", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := p.Acquire(ctx, turnOf("a")); !errors.Is(err, context.Canceled) || p.QueueLength() != 0 {
			t.Errorf("the client left: %v, and %d wait", err, p.QueueLength())
		}
		got := make(chan error, 1)
		go func() {
			l, err := p.Acquire(t.Context(), turnOf("a"))
			l.Done(Success)
			got <- err
		}()
		synctest.Wait()
		leases[0].Done(Success)
		if err := <-got; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second) // the timer finds nobody and ends
		if c := p.Queue(0).Counts; c != (QueueCounts{Served: 1, Left: 1, Expired: 1}) {
			t.Errorf("counted %+v", c)
		}
	})
}

// TestAReplicaThatComesBackServesThoseWhoWait holds the only replica out and in.
func TestAReplicaThatComesBackServesThoseWhoWait(t *testing.T) {
	p, leases := fullPool(t, 1, QueueOptions{})
	a := ask(p, turnOf("a"))
	p.hold(p.Replicas()[0], holdMaintenance, "by hand")
	leases[0].Done(Success)
	if a.calls != 0 {
		t.Fatal("it was served, or refused, while there was no replica")
	}
	if late := ask(p, turnOf("b")); late.err != ErrNoReplica {
		t.Errorf("who came meanwhile got %v, want ErrNoReplica", late.err)
	}
	p.hold(p.Replicas()[0], holdMaintenance, "")
	if a.calls != 1 || a.err != nil {
		t.Errorf("not served when it came back: %v", a.err)
	}
}

// TestTheQueueKeepsItsPromises plays at random on one clock: everybody is
// granted, refused or cancelled exactly once, nobody waits while a place that
// they could use is free, and two callers who both wait all the time have had
// the same, but for one request each and what is not corrected yet.
func TestTheQueueKeepsItsPromises(t *testing.T) {
	for seed := range uint64(20) {
		playQueue(t, rand.New(rand.NewPCG(seed, 1)))
	}
}

func playQueue(t *testing.T, random *rand.Rand) {
	t.Helper()
	p := newPool(t, 3, Options{MaxInFlight: 4, Faults: -1})
	now := int64(1)
	p.clock = func() int64 { return now }
	var all, held []*asking
	cancelled := map[*asking]bool{}
	for range 300 {
		now += random.Int64N(int64(50 * time.Millisecond))
		switch random.IntN(8) {
		case 0, 1, 2, 3:
			need := Need{Tokens: 1 + random.Int64N(500), Turn: Turn{
				Caller: string(rune('a' + random.IntN(5))), Weight: random.IntN(3), Priority: random.IntN(3),
				Wait: time.Duration(random.Int64N(int64(20 * time.Second))),
			}}
			if random.IntN(5) == 0 {
				need.Avoid[0] = p.Replicas()[random.IntN(3)]
			}
			all = append(all, ask(p, need))
		case 4:
			if len(all) > 0 {
				a := all[random.IntN(len(all))]
				if a.Cancel() {
					cancelled[a] = true
				}
			}
		case 5:
			if at, ok := p.NextExpiry(); ok && at <= now {
				p.Expire(now)
			}
		default:
			if len(held) > 0 {
				i := random.IntN(len(held))
				held[i].lease.Used(random.Int64N(900))
				held[i].lease.Done(Outcome(random.IntN(outcomes)))
			}
		}
		held = held[:0]
		waiting := 0
		for _, a := range all {
			switch {
			case a.calls > 1 || a.calls == 1 && cancelled[a]:
				t.Fatalf("answered %d times, cancelled: %v", a.calls, cancelled[a])
			case a.lease != nil && a.lease.stage.Load() != leaseDone:
				held = append(held, a)
			case a.calls == 0 && !cancelled[a]:
				waiting++
				if why := p.whyWaiting(&a.need); why == "" {
					t.Fatal("somebody waits though a place is free")
				}
			}
		}
		if waiting != p.QueueLength() {
			t.Fatalf("%d wait, the queue says %d", waiting, p.QueueLength())
		}
	}
}

// TestCallersWhoWaitGetEqualTokens lets one caller flood with small requests
// while others send large ones.
func TestCallersWhoWaitGetEqualTokens(t *testing.T) {
	p, leases := fullPool(t, 4, QueueOptions{})
	random := rand.New(rand.NewPCG(5, 5))
	had := map[string]int64{}
	sizes := map[string]int64{"flood": 100, "large": 700, "heavy": 300} // heavy weighs two
	var held []*asking
	send := func(caller string) {
		need := turnOf(caller)
		need.Tokens = sizes[caller]
		if caller == "heavy" {
			need.Turn.Weight = 2
		}
		a := &asking{}
		a.Waiter = p.Request(need, func(l *Lease, _ error) {
			had[caller] += sizes[caller]
			a.lease = l
			held = append(held, a)
		})
	}
	for caller := range sizes {
		for range 200 {
			send(caller)
		}
	}
	for _, l := range leases {
		l.Done(Success)
	}
	for range 300 {
		i := random.IntN(len(held))
		a := held[i]
		held[i] = held[len(held)-1]
		held = held[:len(held)-1]
		send(a.need.Turn.Caller)
		a.lease.Done(Success)
		fair := []int64{had["flood"], had["large"], had["heavy"] / 2}
		for _, x := range fair {
			for _, y := range fair {
				if x-y > 700 {
					t.Fatalf("tokens had: %v: more than the largest request apart", had)
				}
			}
		}
	}
}

// TestManyGoroutinesWait is for the race detector, and for lost wake-ups.
func TestManyGoroutinesWait(t *testing.T) {
	p := newPool(t, 3, Options{MaxInFlight: 2})
	p.random = rand.Uint64 // the seeded one is for one goroutine
	var served, left, most atomic.Int64
	var wait sync.WaitGroup
	for g := range 60 {
		wait.Go(func() {
			for i := range 40 {
				ctx, cancel := context.WithCancel(context.Background())
				if (g+i)%7 == 0 {
					time.AfterFunc(time.Duration(i)*10*time.Microsecond, cancel)
				}
				l, err := p.Acquire(ctx, turnOf(fmt.Sprint("caller", g%9)))
				if err != nil {
					left.Add(1)
				} else {
					served.Add(1)
					most.Store(max(most.Load(), l.Replica().InFlight()))
					l.FirstByte()
					l.Done(Success)
				}
				cancel()
			}
		})
	}
	wait.Wait()
	if served.Load()+left.Load() != 60*40 || served.Load() < 1500 || most.Load() > 2 {
		t.Errorf("%d served, %d left, %d at most on a replica", served.Load(), left.Load(), most.Load())
	}
	for _, r := range p.Replicas() {
		if r.InFlight() != 0 || p.QueueLength() != 0 {
			t.Errorf("%d in flight, %d waiting are left", r.InFlight(), p.QueueLength())
		}
	}
}

func TestTheLearnedCap(t *testing.T) {
	load := func(running, waiting float64) Load { return Load{Running: running, Waiting: waiting, KV: 0.5} }
	for _, c := range []struct {
		name  string
		start capState
		looks []Load
		own   int64
		want  int64
	}{
		{"none while little waits", capState{}, []Load{load(30, 4), load(30, 4)}, 34, 0},
		{"none for one moment's crowd", capState{}, []Load{load(30, 40), load(30, 0)}, 70, 0},
		{"half of what is too much goes at once", capState{}, []Load{load(64, 44), load(64, 44)}, 108, 88},
		{"never below the batch and a little", capState{cap: 70, over: 1}, []Load{load(64, 6), load(64, 6), load(64, 6)}, 70, 68},
		{"of what others have a part in, our part", capState{over: 1}, []Load{load(64, 64)}, 32, 25},
		{"raised when it is full and nothing waits", capState{cap: 32}, []Load{load(32, 0)}, 32, 36},
		{"not raised when we have not filled it", capState{cap: 32}, []Load{load(20, 0)}, 20, 32},
		{"not raised when the cache is full", capState{cap: 32}, []Load{{Running: 32, KV: 0.97}}, 32, 32},
	} {
		s := c.start
		for _, l := range c.looks {
			s = s.told(l, c.own)
		}
		if s.cap != c.want {
			t.Errorf("%s: %d, want %d", c.name, s.cap, c.want)
		}
	}
}

// BenchmarkQueue is one request that waits behind a thousand others.
func BenchmarkQueue(b *testing.B) {
	p, err := NewPool("general", Static(urls(8)), Options{MaxInFlight: 1})
	if err != nil {
		b.Fatal(err)
	}
	var held []*Lease
	grant := func(l *Lease, _ error) { held = append(held, l) }
	for i := range 1000 {
		p.Request(turnOf(fmt.Sprint(i%50)), grant)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		p.Request(turnOf(fmt.Sprint(i%50)), grant)
		l := held[len(held)-1]
		held = held[:len(held)-1]
		l.Done(Success)
	}
}
