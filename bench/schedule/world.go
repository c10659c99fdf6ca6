package schedule

import (
	"container/heap"
	"math"
	"time"

	"mete/bench/sim"
)

// network is what a message takes from gateway to replica, and back.
const network = 250 * time.Microsecond

// scrapeEvery is how often a gateway reads the load of a replica.
const scrapeEvery = time.Second

// Setup is all that a run depends on.
type Setup struct {
	Workload Workload
	Policy   string
	Load     float64 // requests a second, for the whole pool
	Replicas int
	Seed     uint64
	Warm     time.Duration // simulated before anything is counted
	Window   time.Duration // counted
	Profile  sim.Profile
}

// world is a run: everything that happens, in order.
type world struct {
	Setup
	now      time.Duration
	events   events
	order    int
	arrivals int
	nodes    []*node // those that serve, then those that were taken away and still work
	gateways []*gateway
	books    *books
	buffer   []sim.Event
}

// node is a replica.
type node struct {
	url      string
	engine   *sim.Engine
	next     time.Duration // of its engine
	serves   bool
	inFlight int // of all gateways
}

// request is one request on its way.
type request struct {
	stem
	caller         int
	prompt, output int
	then           func() // when the answer has come; may be nil

	gateway  *gateway
	node     *node
	number   int // of its arrival
	arrived  time.Duration
	answered bool   // has a first token
	first    func() // tells the gateway of the first token
	done     func() // and of the end
}

const never = time.Duration(math.MaxInt64)

// Run simulates.
func Run(s Setup) (Metrics, error) {
	w := &world{Setup: s}
	w.books = newBooks(w)
	for i := range s.Replicas {
		speed := 1.0
		if i == 0 && s.Workload.slow > 0 {
			speed = s.Workload.slow
		}
		w.addNode(speed)
	}
	for i := range max(s.Workload.gateways, 1) {
		g, err := newGateway(w, i)
		if err != nil {
			return Metrics{}, err
		}
		w.gateways = append(w.gateways, g)
	}
	if s.Workload.churn > 0 {
		w.at(s.Workload.churn, w.comeAndGo)
	}
	w.at(0, w.books.sample)
	w.at(s.Warm, w.books.open)
	(&traffic{w: w, load: s.Load}).start()
	w.run(s.Warm + s.Window)
	return w.books.close(), nil
}

// run lets happen what is due until the end.
func (w *world) run(end time.Duration) {
	for {
		n, due := w.earliest()
		if len(w.events) > 0 && w.events[0].at <= due {
			n, due = nil, w.events[0].at
		}
		if due > end {
			return
		}
		w.now = due
		if n != nil {
			w.step(n)
			continue
		}
		heap.Pop(&w.events).(event).do()
	}
}

func (w *world) earliest() (first *node, due time.Duration) {
	due = never
	for _, n := range w.nodes {
		if n.next < due {
			first, due = n, n.next
		}
	}
	return first, due
}

// step lets a replica work and takes in what comes of it.
func (w *world) step(n *node) {
	w.buffer = n.engine.Advance(w.now, w.buffer[:0])
	for i := range w.buffer {
		e := &w.buffer[i]
		if !e.Done && e.Tokens != 1 {
			continue
		}
		r := e.Sequence.Owner.(*request)
		if e.Tokens == 1 {
			w.books.firstToken(r, e.Sequence.Cached)
			r.first()
		}
		if e.Done {
			n.inFlight--
			w.books.finished(r)
			r.done()
			if r.then != nil {
				r.then()
			}
		}
	}
	n.wake()
}

func (n *node) wake() {
	at, busy := n.engine.Next()
	if n.next = at; !busy {
		n.next = never
	}
}

// arrive brings a request to one of the gateways.
func (w *world) arrive(r *request) {
	w.arrivals++
	r.number, r.arrived = w.arrivals, w.now
	i := 0
	if len(w.gateways) > 1 {
		i = int(mix(r.own^uint64(r.prompt)) % uint64(len(w.gateways)))
	}
	r.gateway = w.gateways[i]
	w.books.arrived(r)
	r.gateway.take(r)
}

// send brings a request to a replica.
func (w *world) send(r *request, n *node) {
	r.node = n
	n.inFlight++
	w.at(w.now+network, func() {
		job := sim.Job{Prompt: r.prompt, Output: r.output, Owner: r}
		if w.Workload.chat != nil { // nobody meets the others' blocks again
			job.Blocks = r.hashes(r.prompt+r.output, blockSize(w.Profile))
		}
		if _, err := n.engine.Submit(w.now, job); err != nil {
			panic(err) // a workload's longest request fits into every profile
		}
		n.wake()
	})
}

func blockSize(p sim.Profile) int {
	if p.BlockSize > 0 {
		return p.BlockSize
	}
	return 16
}

// event is something due.
type event struct {
	at    time.Duration
	order int // of those due at the same time
	do    func()
}

type events []event

func (w *world) at(due time.Duration, do func()) {
	w.order++
	heap.Push(&w.events, event{due, w.order, do})
}

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}
