package sim

import (
	"slices"
	"time"
)

// beginStep schedules a step at the time at, if there is anything to do.
func (e *Engine) beginStep(at time.Duration, events []Event) []Event {
	for len(e.coming) > 0 && e.coming[0].visible <= at {
		e.waiting = append(e.waiting, e.coming[0])
		e.coming = slices.Delete(e.coming, 0, 1)
	}
	plan := batch{budget: e.p.BatchTokens}
	preempted := e.scheduleRunning(&plan)
	if !preempted {
		events = e.admit(at, &plan, events)
	}
	if plan.prefilled+plan.decoded == 0 {
		return events
	}
	e.inStep = true
	e.stepEnd = at + e.p.step(plan.prefilled, plan.decoded, plan.context, e.noise.unit())
	return events
}

// batch is what one step computes.
type batch struct {
	budget                      int // tokens left
	prefilled, decoded, context int
}

func (b *batch) add(s *Sequence, n int) {
	s.scheduled = n
	b.budget -= n
	if s.computed >= s.Prompt {
		b.decoded += n
		b.context += s.computed
	} else {
		b.prefilled += n
	}
}

// scheduleRunning gives every running sequence its tokens, and takes the
// youngest out when the cache has no block left.
func (e *Engine) scheduleRunning(plan *batch) (preempted bool) {
	for i := 0; i < len(e.running) && plan.budget > 0; i++ {
		s := e.running[i]
		n := min(s.Prompt+s.emitted-s.computed, plan.budget)
		for !e.reserve(s, n) {
			preempted = true
			victim := e.running[len(e.running)-1]
			e.preempt(victim)
			if victim == s {
				return preempted
			}
		}
		plan.add(s, n)
	}
	return preempted
}

// admit starts waiting sequences while budget, places and blocks last.
func (e *Engine) admit(at time.Duration, plan *batch, events []Event) []Event {
	for len(e.waiting) > 0 && plan.budget > 0 && len(e.running) < e.p.MaxSeqs {
		s := e.waiting[0]
		if !e.start(s, plan) {
			break
		}
		e.waiting = slices.Delete(e.waiting, 0, 1)
		e.running = append(e.running, s)
		if !s.started {
			s.started = true
			events = append(events, Event{At: at, Sequence: s, Started: true})
		}
	}
	return events
}

// start gives s what the cache has of its prefix and the blocks of its first
// chunk, or nothing. The last token is always computed: its output is wanted.
func (e *Engine) start(s *Sequence, plan *batch) bool {
	total := s.Prompt + s.emitted
	reusable := s.Blocks[:min(len(s.Blocks), (total-1)/e.p.BlockSize)]
	hits, idle := e.cache.match(reusable)
	cached := hits * e.p.BlockSize
	n := min(total-cached, plan.budget)
	if e.blocksFor(cached+n)-hits > e.cache.free-idle {
		return false
	}
	s.blocks = e.cache.hold(s.Blocks[:hits], s.blocks)
	s.computed = cached
	e.reserve(s, n)
	plan.add(s, n)
	e.load.PrefixQueries += int64(total)
	e.load.PrefixHits += int64(cached)
	e.load.Computed += int64(total - cached)
	if !s.started {
		s.Cached = min(cached, s.Prompt)
		e.load.PromptTokens += int64(s.Prompt)
	}
	return true
}

// reserve makes sure that s has blocks for n more tokens, and names those that
// they fill. It changes nothing when there are too few.
func (e *Engine) reserve(s *Sequence, n int) bool {
	want := e.blocksFor(s.computed + n)
	if want-len(s.blocks) > e.cache.free {
		return false
	}
	for len(s.blocks) < want {
		s.blocks = append(s.blocks, e.cache.take())
	}
	full := min((s.computed+n)/e.p.BlockSize, len(s.Blocks))
	for i := s.computed / e.p.BlockSize; i < full; i++ {
		e.cache.name(s.blocks[i], s.Blocks[i])
	}
	return true
}

func (e *Engine) preempt(s *Sequence) {
	e.load.Preemptions++
	e.running = e.running[:len(e.running)-1]
	e.cache.release(s.blocks)
	s.blocks, s.computed, s.scheduled = s.blocks[:0], 0, 0
	e.waiting = slices.Insert(e.waiting, 0, s)
}

func (e *Engine) drop(s *Sequence) {
	s.ended = true
	e.cache.release(s.blocks)
	s.blocks = nil
}

func (e *Engine) blocksFor(tokens int) int {
	return (tokens + e.p.BlockSize - 1) / e.p.BlockSize
}

// insert puts s into the list, which is sorted by the time at which the
// scheduler can see a sequence; equal times keep their order of arrival.
func insert(list []*Sequence, s *Sequence) []*Sequence {
	i := len(list)
	for i > 0 && list[i-1].visible > s.visible {
		i--
	}
	return slices.Insert(list, i, s)
}
