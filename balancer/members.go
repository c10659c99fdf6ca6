package balancer

import (
	"context"

	"github.com/sony/gobreaker/v2"
)

// source is what one source said last.
type source struct {
	name      string
	endpoints []Endpoint
}

// members is a snapshot of a pool, never changed once it is published.
type members struct {
	all      []*Replica
	ready    []*Replica // in a panic also those that only checks hold out
	suspects []*Replica // used if none of ready can be
	panicked bool
	bySlot   []*Replica // of all, by their slots
}

// at is the replica with that slot, nil if there is none; a picture that others
// write to may know of replicas that came after this snapshot.
func (m *members) at(slot uint16) *Replica {
	if int(slot) >= len(m.bySlot) {
		return nil
	}
	return m.bySlot[slot]
}

// Update is Publish by the configuration.
func (p *Pool) Update(endpoints []Endpoint) error { return p.Publish("static", endpoints) }

// Publish replaces the replicas that one source knows; those of other sources
// stay. A replica that stays keeps its identity and its counters; of two with
// the same host and port the first counts. A replica that goes gets no new
// leases. On an error nothing changes.
func (p *Pool) Publish(from string, endpoints []Endpoint) error {
	defer p.serve() // once the lock is free
	p.updating.Lock()
	defer p.updating.Unlock()
	sources, isNew := withSource(p.sources, source{from, endpoints})
	before := p.members.Load().all
	next, err := p.settle(before, sources, isNew)
	if err != nil {
		return err
	}
	p.sources = sources
	p.arrange(next)
	p.watch()
	return nil
}

// withSource returns a copy of the list in which s is the last word.
func withSource(list []source, s source) (next []source, isNew bool) {
	next = append(next, list...)
	for i := range next {
		if next[i].name == s.name {
			next[i] = s
			return next, false
		}
	}
	return append(next, s), true
}

// settle makes the replicas of all sources. Those that it did not know begin
// slowly, unless a new source brings them: then there is nothing to be slow
// beside.
func (p *Pool) settle(before []*Replica, sources []source, isNew bool) ([]*Replica, error) {
	known := make(map[string]*Replica, len(before))
	for _, r := range before {
		known[r.URL] = r
	}
	next := make([]*Replica, 0, len(before))
	held := make([]Endpoint, 0, len(before))
	taken := make(map[string]bool, len(before))
	for _, s := range sources {
		for _, e := range s.endpoints {
			r, err := newReplica(e, p.clock)
			if err != nil {
				return nil, err
			}
			if taken[r.ID] {
				continue
			}
			taken[r.ID] = true
			if stays := known[r.URL]; stays != nil && stays.Host == r.Host {
				r = stays
			} else {
				p.adopt(r, isNew)
			}
			next, held = append(next, r), append(held, e)
		}
	}
	for i, r := range next {
		p.obey(r, held[i])
	}
	return next, nil
}

// adopt readies a replica that was not in the pool before.
func (p *Pool) adopt(r *Replica, isNew bool) {
	if p.lastSlot++; p.lastSlot == 0 {
		p.lastSlot = 1
	}
	r.slot = p.lastSlot
	if !isNew {
		r.warming.Store(p.clock())
	}
	r.secure = p.options.Load().TLS
	r.breaker = newBreaker(p.clock, p.options.Load().Faults, breakerTimeout)
	r.reach.learns.Store(p.options.Load().LearnCap)
	r.breaker.onChange = func() {
		if r.breaker.now() == gobreaker.StateClosed {
			r.warming.Store(p.clock())
		}
		p.tell(r)
	}
}

// obey takes over what the source says of a replica.
func (p *Pool) obey(r *Replica, e Endpoint) {
	r.weight.Store(int64(max(e.Weight, 1)))
	r.heard(e.Models)
	r.set(holdModel, r.missing(p.options.Load().Models))
	for bit, held := range sourceHolds {
		why := ""
		if e.Held == held {
			why = string(held)
			if e.Why != "" {
				why += ": " + e.Why
			}
		}
		r.set(bit, why)
	}
}

// arrange publishes the snapshot. The caller holds updating.
func (p *Pool) arrange(all []*Replica) {
	m := &members{all: all, bySlot: make([]*Replica, int(p.lastSlot)+1)}
	for _, r := range all {
		m.bySlot[r.slot] = r
	}
	able := 0 // those that are there to be used
	for _, r := range all {
		switch h := r.holds.Load(); {
		case h == 0:
			m.ready = append(m.ready, r)
			able++
		case h == holdSuspect:
			m.suspects = append(m.suspects, r)
		case h&(holdMaintenance|holdModel|holdSuspect) == 0:
			able++
		}
	}
	if len(m.ready)*2 < able {
		m.panicked = true
		m.ready = m.ready[:0]
		for _, r := range all {
			if r.holds.Load()&^byChecks == 0 {
				m.ready = append(m.ready, r)
			}
		}
	}
	p.report(p.members.Swap(m), m)
}

// report tells who came, went or changed. The caller holds updating.
func (p *Pool) report(before, after *members) {
	if p.options.Load().OnChange == nil {
		return
	}
	there := make(map[*Replica]bool, len(after.all))
	for _, r := range after.all {
		there[r] = true
		p.tell(r)
	}
	for _, r := range before.all {
		if !there[r] {
			p.options.Load().OnChange(Change{p.name, r, StateGone, "no source names it any more"})
		}
	}
}

// watch starts and stops watchers so that each replica has one. The caller
// holds updating.
func (p *Pool) watch() {
	if p.running == nil || p.running.Err() != nil {
		return
	}
	there := map[*Replica]bool{}
	for _, r := range p.members.Load().all {
		there[r] = true
		if p.watchers[r] != nil {
			continue
		}
		ctx, stop := context.WithCancel(p.running)
		p.watchers[r] = stop
		p.watching.Go(func() { p.attend(ctx, r) })
	}
	for r, stop := range p.watchers {
		if !there[r] {
			stop()
			delete(p.watchers, r)
		}
	}
}
