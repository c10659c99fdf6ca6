package balancer

import (
	"cmp"
	"slices"
	"time"
)

// QueueView is what waits in a pool now, to be shown as JSON.
type QueueView struct {
	Pool      string       `json:"pool"`
	Length    int          `json:"length"`
	MaxLength int          `json:"max_length"`
	Reason    string       `json:"reason,omitempty"` // why anybody waits
	EndsPerS  *float64     `json:"ends_per_second"`  // requests that the pool ends, with so many under way; null: not known
	Counts    QueueCounts  `json:"counts"`
	Caps      []CapView    `json:"caps"`
	Callers   []CallerView `json:"callers"` // those who wait, in the order of their priority, then of what they have had
	Waiting   []WaiterView `json:"waiting"` // in the order in which they would be served, no more than were asked for
}

// CapView is how much a replica has, and may have.
type CapView struct {
	Replica  string `json:"replica"`
	InFlight int64  `json:"in_flight"`
	Cap      int64  `json:"cap"`     // 0: none
	Learned  bool   `json:"learned"` // from what it tells; otherwise it is set
}

// CallerView is a caller who waits.
type CallerView struct {
	Caller   string  `json:"caller"`
	Priority int     `json:"priority"`
	Weight   float64 `json:"weight"`
	Retries  bool    `json:"retries,omitempty"` // not a caller, but all requests that a replica has failed: they go first
	Waiting  int     `json:"waiting"`
	Tokens   int64   `json:"tokens"` // of those that wait, expected
	Had      float64 `json:"had"`    // virtual counter: tokens over the weight; the least is next
	OldestMS int64   `json:"oldest_ms"`
}

// WaiterView is a request that waits.
type WaiterView struct {
	Position   int    `json:"position"` // 1 is next
	Caller     string `json:"caller"`
	Priority   int    `json:"priority"`
	Model      string `json:"model,omitempty"` // if not every replica serves it
	Tokens     int64  `json:"tokens"`
	WaitedMS   int64  `json:"waited_ms"`
	LeftMS     int64  `json:"left_ms"` // until it gives up
	DeadlineMS *int64 `json:"deadline_ms,omitempty"`
	Reason     string `json:"reason"`
}

// QueueLength is how many requests wait.
func (p *Pool) QueueLength() int { return int(p.queue.length.Load()) }

// Queue is what waits now, with so many single requests at the most. It holds
// the queue up meanwhile: milliseconds for thousands of requests.
func (p *Pool) Queue(most int) QueueView {
	now, q := p.clock(), &p.queue
	v := QueueView{Pool: p.name, Caps: []CapView{}, Callers: []CallerView{}, Waiting: []WaiterView{}}
	options, underWay := p.options.Load(), int64(0)
	for _, r := range p.Replicas() {
		underWay += r.InFlight()
		limit := r.most(options.MaxInFlight, now)
		v.Caps = append(v.Caps, CapView{Replica: r.ID, InFlight: r.InFlight(), Cap: limit, Learned: limit != options.MaxInFlight})
	}
	if rate := q.drain.perSecond(underWay); rate > 0 {
		v.EndsPerS = &rate
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	v.Length, v.MaxLength, v.Counts = q.order.length, options.Queue.filled().MaxLength, q.counts
	if v.Length > 0 {
		v.Reason = p.whyWaiting(&Need{})
	}
	for _, c := range q.order.classes {
		v.Callers = append(v.Callers, c.views(now)...)
	}
	for i, w := range q.order.first(most) {
		v.Waiting = append(v.Waiting, w.view(i+1, now))
		v.Waiting[i].Reason = p.whyWaiting(&w.need)
		if v.Waiting[i].Reason == "" {
			v.Waiting[i].Reason = "others are first"
		}
	}
	return v
}

// whyWaiting is why no replica takes the request now; empty if one would.
func (p *Pool) whyWaiting(need *Need) string {
	q := p.question(need)
	m := p.members.Load()
	full := 0
	for _, list := range [...][]*Replica{m.ready, m.suspects} {
		for _, r := range list {
			switch q.objection(r) {
			case "":
				return ""
			case objectFull:
				full++
			}
		}
	}
	if full > 0 {
		return "every replica that may take it is full"
	}
	return "no replica may take it"
}

func (c *class) views(now int64) []CallerView {
	list := make([]CallerView, 0, c.ready.len())
	for _, p := range c.ready.list {
		oldest := now
		for _, w := range p.line.list {
			oldest = min(oldest, w.since)
		}
		v := CallerView{
			Caller: p.name, Priority: c.priority, Weight: p.weight, Waiting: p.line.len(),
			Tokens: p.dues, Had: p.counter, OldestMS: (now - oldest) / int64(time.Millisecond),
		}
		if c.priority == frontClass {
			v.Retries, v.Priority = true, 0
		}
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b CallerView) int {
		return cmp.Or(cmp.Compare(a.Had, b.Had), cmp.Compare(a.Caller, b.Caller))
	})
	return list
}

func (w *Waiter) view(position int, now int64) WaiterView {
	v := WaiterView{
		Position: position, Caller: w.need.Turn.Caller, Priority: w.need.Turn.Priority, Model: w.need.Model, Tokens: w.cost,
		WaitedMS: (now - w.since) / int64(time.Millisecond), LeftMS: max(w.expires-now, 0) / int64(time.Millisecond),
	}
	if w.deadline != 0 {
		left := (w.deadline - now) / int64(time.Millisecond)
		v.DeadlineMS = &left
	}
	return v
}

// first are those who would be served first if nobody else came and every
// estimate were right. The order is not changed: it is played on a copy.
func (o *order) first(most int) []*Waiter {
	play := o.clone()
	var list []*Waiter
	for play.length > 0 && len(list) < most {
		w := play.next()
		list = append(list, w.origin)
		play.remove(w)
		play.served(w)
	}
	return list
}

// clone copies all that next and served look at.
func (o *order) clone() *order {
	next := &order{turns: o.turns}
	for _, c := range o.classes {
		for _, p := range c.ready.list {
			for _, w := range p.line.list {
				next.add(&Waiter{need: w.need, cost: w.cost, deadline: w.deadline, serial: w.serial, place: -1, origin: w})
			}
			twin := next.class(c.priority).payers[p.name]
			twin.counter = p.counter
			twin.class.ready.fix(twin.place)
		}
		twin := next.class(c.priority)
		twin.turn, twin.floor = c.turn, c.floor
	}
	return next
}
