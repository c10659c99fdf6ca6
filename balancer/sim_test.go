package balancer

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"
)

// world is a simulation in the virtual time of a synctest bubble: one goroutine
// works off events in order, so that a seed decides everything.
type world struct {
	now    time.Duration
	events eventQueue
	rand   *rand.Rand
	serial int
}

type event struct {
	at     time.Duration
	serial int // keeps events of the same moment in order
	do     func()
}

func newWorld(seed uint64) *world {
	return &world{rand: rand.New(rand.NewPCG(seed, 7))}
}

// pool makes a pool of n replicas that lives in the world.
func (w *world) pool(t testing.TB, n int) *Pool {
	t.Helper()
	p := newPool(t, n, Options{})
	p.random = w.rand.Uint64
	return p
}

func (w *world) after(d time.Duration, do func()) {
	w.serial++
	heap.Push(&w.events, event{w.now + d, w.serial, do})
}

// every calls do at a regular interval, beginning at a random moment in it.
func (w *world) every(d time.Duration, do func()) {
	var tick func()
	tick = func() { do(); w.after(d, tick) }
	w.after(time.Duration(w.rand.Int64N(int64(d))), tick)
}

func (w *world) run(until time.Duration) {
	for len(w.events) > 0 && w.events[0].at <= until {
		e := heap.Pop(&w.events).(event)
		w.sleep(e.at)
		e.do()
	}
	w.sleep(until)
}

func (w *world) sleep(until time.Duration) {
	if until > w.now {
		time.Sleep(until - w.now)
		w.now = until
	}
}

// exponential is a random duration with the given mean.
func (w *world) exponential(mean time.Duration) time.Duration {
	return time.Duration(w.rand.ExpFloat64() * float64(mean))
}

type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].serial < q[j].serial
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *eventQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
