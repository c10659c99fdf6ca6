package sim

import (
	"errors"
	"slices"
	"time"
)

// Engine is the scheduler of one vLLM engine as a pure function of time: it
// holds no clock and starts nothing. The caller tells it the time, in any unit
// of its own (an offset from a start), which never goes back:
//
//	seq, err := e.Submit(now, job)
//	for { at, ok := e.Next(); …; events = e.Advance(at, events[:0]) }
//
// It follows vLLM's V1 scheduler: every step first serves the running
// sequences, one token each or a chunk of their prompt, then admits waiting
// ones in order of arrival while the token budget, the sequence limit and the
// KV cache allow it; when the cache is full, the sequence that came last is
// preempted and later computed again. It is not safe for concurrent use.
type Engine struct {
	p       Profile
	cache   *blockCache
	noise   random
	coming  []*Sequence // not visible yet, by the time at which they will be
	waiting []*Sequence
	running []*Sequence
	stepEnd time.Duration // of the step under way, if stepping
	inStep  bool
	load    Load
}

// Job is one sequence to compute.
type Job struct {
	Prompt int      // tokens, at least 1
	Output int      // tokens to generate; 0 ends with the prompt (embeddings)
	Blocks []uint64 // BlockHashes of the prompt, and of the output as far as known
	Owner  any      // handed back in the events
}

// Sequence is a submitted Job.
type Sequence struct {
	Job
	Arrived time.Duration
	Cached  int // prompt tokens found in the KV cache when it was admitted first

	visible   time.Duration
	started   bool
	ended     bool
	blocks    []int32
	computed  int // tokens whose KV is in the cache
	scheduled int // tokens in the step under way
	emitted   int
}

// Event says what a step brought.
type Event struct {
	At       time.Duration
	Sequence *Sequence
	Tokens   int  // generated so far
	Started  bool // admitted for the first time, at the beginning of the step
	Done     bool // complete; the sequence is out of the engine
}

// Load is what vLLM's /metrics says of an engine.
type Load struct {
	Running, Waiting             int
	KVUsage                      float64 // 0..1
	PromptTokens, OutputTokens   int64
	PrefixQueries, PrefixHits    int64 // tokens
	Preemptions, Steps, Computed int64 // Computed: prompt tokens that were not cached
}

// ErrTooLarge means that a job would not fit into the KV cache even alone.
var ErrTooLarge = errors.New("job is larger than the kv cache")

// NewEngine returns an idle engine.
func NewEngine(p Profile) *Engine {
	p = p.withDefaults()
	return &Engine{p: p, cache: newBlockCache(p.Blocks, !p.NoPrefixReuse), noise: random(mix(p.Seed))}
}

// SetSpeed changes Profile.Speed from the next step on.
func (e *Engine) SetSpeed(speed float64) { e.p.Speed = speed }

// Submit adds a job that arrives at now.
func (e *Engine) Submit(now time.Duration, j Job) (*Sequence, error) {
	if e.blocksFor(j.Prompt+j.Output) > e.p.Blocks {
		return nil, ErrTooLarge
	}
	s := &Sequence{Job: j, Arrived: now, visible: now + e.p.delay(j.Prompt)}
	e.coming = insert(e.coming, s)
	return s, nil
}

// Abort takes a sequence out, whatever its state, and reports whether it was
// still in. The step under way takes its time all the same.
func (e *Engine) Abort(s *Sequence) bool {
	if s.ended {
		return false
	}
	for _, list := range []*[]*Sequence{&e.coming, &e.waiting, &e.running} {
		if i := slices.Index(*list, s); i >= 0 {
			*list = slices.Delete(*list, i, i+1)
		}
	}
	e.drop(s)
	return true
}

// Next returns the time of the next change, if there will be one without a new
// job.
func (e *Engine) Next() (at time.Duration, ok bool) {
	switch {
	case e.inStep:
		return e.stepEnd, true
	case len(e.coming) > 0:
		return e.coming[0].visible, true
	}
	return 0, false
}

// Advance moves time to now and appends what happened to events.
func (e *Engine) Advance(now time.Duration, events []Event) []Event {
	for {
		at, ok := e.Next()
		if !ok || at > now {
			return events
		}
		if e.inStep {
			events = e.endStep(at, events)
		}
		events = e.beginStep(at, events)
	}
}

// Load returns the state at the last Advance.
func (e *Engine) Load() Load {
	l := e.load
	l.Running, l.Waiting, l.KVUsage = len(e.running), len(e.waiting)+len(e.coming), e.cache.usage()
	return l
}

func (e *Engine) endStep(at time.Duration, events []Event) []Event {
	e.inStep = false
	e.load.Steps++
	left := e.running[:0]
	for _, s := range e.running {
		s.computed += s.scheduled
		reached := s.scheduled > 0 && s.computed == s.Prompt+s.emitted
		s.scheduled = 0
		if reached && s.emitted < s.Output {
			s.emitted++
			e.load.OutputTokens++
		}
		done := reached && s.emitted == s.Output
		if done {
			e.drop(s)
		} else {
			left = append(left, s)
		}
		if reached {
			events = append(events, Event{At: at, Sequence: s, Tokens: s.emitted, Done: done})
		}
	}
	clear(e.running[len(left):])
	e.running = left
	return events
}
