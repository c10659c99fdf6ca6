package sim

import (
	"sync"
	"sync/atomic"
	"time"
)

// pacer runs an Engine on the wall clock: one goroutine sleeps until the
// engine's next change and tells the tickets what came of it.
type pacer struct {
	epoch time.Time
	wake  chan struct{} // the next change may have moved
	quit  chan struct{}

	mu     sync.Mutex
	engine *Engine
	events []Event
}

func startPacer(e *Engine, epoch time.Time, tasks *sync.WaitGroup) *pacer {
	p := &pacer{epoch: epoch, engine: e, wake: make(chan struct{}, 1), quit: make(chan struct{})}
	tasks.Add(1)
	go func() {
		defer tasks.Done()
		p.run()
	}()
	return p
}

func (p *pacer) stop() { close(p.quit) }

func (p *pacer) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-p.wake:
		case <-timer.C:
		}
		if at, ok := p.advance(); ok {
			timer.Reset(time.Until(p.epoch.Add(at)))
		}
	}
}

// advance brings the engine up to now and delivers what happened.
func (p *pacer) advance() (next time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advanceLocked(time.Since(p.epoch))
	return p.engine.Next()
}

func (p *pacer) advanceLocked(now time.Duration) {
	p.events = p.engine.Advance(now, p.events[:0])
	for i := range p.events {
		e := &p.events[i]
		e.Sequence.Owner.(*share).deliver(e)
	}
	clear(p.events)
}

// submit adds a job; its owner must be a *share.
func (p *pacer) submit(j Job) (*Sequence, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Since(p.epoch)
	p.advanceLocked(now)
	s, err := p.engine.Submit(now, j)
	p.kick()
	return s, err
}

func (p *pacer) abort(s *Sequence) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine.Abort(s) {
		p.kick()
	}
}

func (p *pacer) setSpeed(speed float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.engine.SetSpeed(speed)
}

func (p *pacer) kick() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *pacer) load() Load {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.engine.Load()
}

// ticket is one request's place in an engine, with a share for each of its
// sequences. In instant mode it has no engine and everything is ready.
type ticket struct {
	r       *Replica
	x       *exchange
	pacer   *pacer
	shares  []share
	changed chan struct{}
	weight  int64 // sequences counted as in flight
	arrived time.Time
}

// share is what a ticket knows of one sequence.
type share struct {
	t        *ticket
	sequence *Sequence
	tokens   atomic.Int32
	cached   atomic.Int32 // prompt tokens found in the KV cache
	done     atomic.Bool
}

func (s *share) deliver(e *Event) {
	s.tokens.Store(int32(e.Tokens))
	s.done.Store(e.Done)
	m := &s.t.r.meters
	switch now := e.At; {
	case e.Started:
		s.cached.Store(int32(e.Sequence.Cached))
		m.queueTime.observe(now - e.Sequence.Arrived)
		return
	case e.Tokens == 1:
		m.firstToken.observe(now - e.Sequence.Arrived)
	}
	select {
	case s.t.changed <- struct{}{}:
	default:
	}
}

// ready returns how many tokens choice i may show.
func (t *ticket) ready(i int) int {
	if t.pacer == nil {
		return 1 << 30
	}
	return int(t.shares[i].tokens.Load())
}

// wait returns when ready may have changed, or with errGone or errClosing.
func (t *ticket) wait() error {
	select {
	case <-t.changed:
		return nil
	case <-t.x.req.gone:
		return errGone
	case <-t.x.r.closing:
		return errClosing
	}
}

// waitDone returns when every sequence is complete.
func (t *ticket) waitDone() error {
	for i := range t.shares {
		for !t.shares[i].done.Load() {
			if err := t.wait(); err != nil {
				return err
			}
		}
	}
	return nil
}

// cached returns the prompt tokens that were found in the KV cache so far.
func (t *ticket) cached() int {
	n := 0
	for i := range t.shares {
		n += int(t.shares[i].cached.Load())
	}
	return n
}

// release gives the place back, whether the sequences are complete or not.
func (t *ticket) release() {
	for i := range t.shares {
		if s := t.shares[i].sequence; s != nil {
			t.pacer.abort(s)
		}
	}
	t.r.meters.inflight.Add(-t.weight)
}
