package balancer

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

const (
	// agingTurn is the turn, of so many, that goes to the class which has been
	// passed over longest: so no class starves, and the highest gets 15 of 16.
	agingTurn = 16

	sweepTurn = 1024 // turns after which those are looked for who need not be known any more

	// frontClass is the priority of requests that another replica has failed:
	// they have waited for their turn before.
	frontClass = math.MaxInt
)

// order decides whose turn it is among those that wait. It is pure: it knows
// neither time nor replicas, and is guarded by its owner.
//
// Classes are strict, but for the turn in agingTurn. Within a class the callers
// share by tokens, after the virtual token counter of Sheng et al., "Fairness in
// Serving Large Language Models" (OSDI 2024): next is the caller whose counter
// of tokens served, over its weight, is least; a caller that begins to wait is
// lifted to the least counter of those who wait, so that nobody saves up. The
// charge is an estimate, and corrected when the request has ended. So of two
// callers who both wait, one is ahead of the other by no more than one request
// and what the estimates of those under way are wrong by. A caller's own
// requests go by deadline, then first come, first served.
type order struct {
	classes []*class // the highest priority first
	length  int
	turns   uint64
}

// class is the callers of one priority.
type class struct {
	priority int
	payers   map[string]*payer
	ready    heapOf[*payer] // those who wait, the least counter first
	floor    float64        // the counter of who was served last
	length   int
	turn     uint64 // when it was last served, or began to wait
}

// payer is a caller, with what it has had.
type payer struct {
	name    string
	class   *class
	weight  float64
	counter float64 // tokens had, over the weight
	dues    int64   // tokens of those that wait
	line    heapOf[*Waiter]
	place   int // in ready, -1 when it does not wait
	passed  int // of its requests, in the present look for one to serve
}

// add lets w wait. Its caller is made known if it is not.
func (o *order) add(w *Waiter) {
	c := o.class(w.priority())
	p := c.payer(w.need.Turn.Caller, w.need.Turn.Weight)
	if p.place < 0 {
		p.counter = max(p.counter, c.entry())
	}
	if c.length == 0 {
		c.turn = o.turns
	}
	w.payer = p
	o.insert(w)
}

// insert puts w into its caller's line; undoes remove.
func (o *order) insert(w *Waiter) {
	p := w.payer
	p.line.push(w)
	p.dues += w.cost
	if p.place < 0 {
		p.class.ready.push(p)
	} else {
		p.class.ready.fix(p.place)
	}
	p.class.length++
	o.length++
}

// remove takes w out, without a charge.
func (o *order) remove(w *Waiter) {
	p := w.payer
	p.line.remove(w.place)
	p.dues -= w.cost
	if p.line.len() == 0 {
		p.class.ready.remove(p.place)
	} else {
		p.class.ready.fix(p.place)
	}
	p.class.length--
	o.length--
}

// setAside leaves a caller who waits out, with all its requests, until takeBack.
func (o *order) setAside(p *payer) {
	p.class.ready.remove(p.place)
	p.class.length -= p.line.len()
	o.length -= p.line.len()
}

func (o *order) takeBack(p *payer) {
	p.class.ready.push(p)
	p.class.length += p.line.len()
	o.length += p.line.len()
}

// next is whose turn it is; nobody must wait in vain: length must not be 0.
func (o *order) next() *Waiter {
	best, longest := (*class)(nil), (*class)(nil)
	for _, c := range o.classes {
		if c.length == 0 {
			continue
		}
		if best == nil {
			best = c
		}
		if longest == nil || c.turn < longest.turn {
			longest = c
		}
	}
	if best.priority != frontClass && o.turns%agingTurn == agingTurn-1 {
		best = longest
	}
	return best.ready.first().line.first()
}

// served charges the caller of a request that has been removed.
func (o *order) served(w *Waiter) {
	p := w.payer
	o.turns++
	p.class.turn, p.class.floor = o.turns, p.counter
	p.charge(w.cost)
	o.forget(p)
	if o.turns%sweepTurn == 0 {
		for _, c := range o.classes {
			maps.DeleteFunc(c.payers, func(_ string, p *payer) bool { return p.idle() })
		}
	}
}

// idle reports whether the counter would say nothing when the caller comes back.
func (p *payer) idle() bool { return p.place < 0 && p.counter <= p.class.entry() }

// charge adds tokens to what the caller has had, or takes them back.
func (p *payer) charge(tokens int64) {
	p.counter += float64(tokens) / p.weight
	if p.place >= 0 {
		p.class.ready.fix(p.place)
	}
}

// forget drops a caller that is idle. When nobody waits any more all are
// dropped: the next to wait begin as equals.
func (o *order) forget(p *payer) {
	if o.length == 0 {
		o.classes = nil
		return
	}
	if p.idle() {
		delete(p.class.payers, p.name)
	}
}

// ahead is how many tokens will be served before one more request of the turn,
// if nobody else comes.
func (o *order) ahead(priority int, t *Turn, deadline int64) (tokens float64) {
	for _, c := range o.classes {
		switch {
		case c.priority > priority:
			for _, p := range c.ready.list {
				tokens += float64(p.dues)
			}
		case c.priority == priority:
			tokens += c.ahead(t, deadline)
		}
	}
	return tokens
}

func (c *class) ahead(t *Turn, deadline int64) float64 {
	own, counter := 0.0, c.entry()
	if p := c.payers[t.Caller]; p != nil {
		own, counter = float64(p.before(deadline)), max(p.counter, counter)
		if p.place >= 0 {
			counter = p.counter
		}
	}
	weight := weightOf(t.Weight)
	tag, tokens := counter+own/weight, own
	for _, p := range c.ready.list {
		if p.name != t.Caller {
			tokens += min(float64(p.dues), max(0, tag-p.counter)*p.weight)
		}
	}
	return tokens
}

// dues are the tokens of all who wait.
func (o *order) dues() (tokens int64) {
	for _, c := range o.classes {
		for _, p := range c.ready.list {
			tokens += p.dues
		}
	}
	return tokens
}

// waiting is how many requests of a caller wait.
func (o *order) waiting(priority int, name string) int {
	for _, c := range o.classes {
		if p := c.payers[name]; p != nil && c.priority == priority {
			return p.line.len()
		}
	}
	return 0
}

// before is the tokens of a caller's own requests that a new one has to wait
// for.
func (p *payer) before(deadline int64) int64 {
	if deadline == 0 {
		return p.dues
	}
	dues := int64(0)
	for _, w := range p.line.list {
		if w.deadline != 0 && w.deadline <= deadline {
			dues += w.cost
		}
	}
	return dues
}

// entry is the counter with which somebody begins to wait.
func (c *class) entry() float64 {
	if c.ready.len() > 0 {
		return c.ready.first().counter
	}
	return c.floor
}

func (o *order) class(priority int) *class {
	i, found := slices.BinarySearchFunc(o.classes, priority, func(c *class, priority int) int {
		return cmp.Compare(priority, c.priority)
	})
	if !found {
		o.classes = slices.Insert(o.classes, i, newClass(priority))
	}
	return o.classes[i]
}

func newClass(priority int) *class {
	return &class{priority: priority, payers: map[string]*payer{}, ready: heapOf[*payer]{
		less: func(a, b *payer) bool {
			if a.counter != b.counter {
				return a.counter < b.counter
			}
			if a.line.len() != b.line.len() { // who has just come before who floods
				return a.line.len() < b.line.len()
			}
			return a.line.len() > 0 && a.line.first().serial < b.line.first().serial
		},
		note: func(p *payer, place int) { p.place = place },
	}}
}

// payer returns the caller's account; a new weight counts from now on.
func (c *class) payer(name string, weight int) *payer {
	p := c.payers[name]
	if p == nil {
		p = &payer{name: name, class: c, place: -1, counter: c.entry(), line: heapOf[*Waiter]{
			less: func(a, b *Waiter) bool { return a.before(b) },
			note: func(w *Waiter, place int) { w.place = place },
		}}
		c.payers[name] = p
	}
	p.weight = weightOf(weight)
	return p
}

func weightOf(weight int) float64 { return float64(max(weight, 1)) }
