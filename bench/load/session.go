package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Options describe a run.
type Options struct {
	Target   Target
	Requests []*Request // used in turn, from the first again after the last

	// Schedule makes an open loop. Nil is a closed loop of Concurrency callers.
	Schedule Schedule
	// Concurrency is the number of callers of a closed loop; in an open one it
	// is the most that may be in flight, more wait; 0 is no bound.
	Concurrency int
	// RampUp spreads the first requests of a closed loop over a time.
	RampUp time.Duration

	Count    int           // requests to send; 0 is no bound
	Duration time.Duration // of sending; answers may end later; 0 is no bound
	Timeout  time.Duration // of one request; 10 minutes when 0
	Goodput  Goodput
	Detailed bool // keep every request's figures
}

func (o *Options) check() error {
	switch {
	case o.Target.Address == "":
		return errors.New("no address to send to")
	case len(o.Requests) == 0:
		return errors.New("no requests to send")
	case o.Schedule == nil && o.Concurrency < 1:
		return fmt.Errorf("a closed loop of %d callers: want at least 1", o.Concurrency)
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Minute
	}
	return nil
}

// Session is a run under way.
type Session struct {
	options Options
	rec     *recorder
	began   time.Time
	tickets atomic.Int64 // requests begun
	crew    crew

	sending context.Context // ends when nothing more is to be sent
	cancel  context.CancelFunc
	working context.Context // ends when answers are no longer waited for
	abandon context.CancelFunc
	tasks   sync.WaitGroup
	done    chan struct{}
	ended   time.Time // valid once done is closed
}

// Start begins a run. The session must be ended with Wait or Stop.
func Start(ctx context.Context, options Options) (*Session, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	for _, q := range options.Requests {
		q.prepare(&options.Target)
	}
	s := &Session{options: options, rec: newRecorder(options.Goodput, options.Detailed), done: make(chan struct{})}
	s.working, s.abandon = context.WithCancel(ctx)
	s.sending, s.cancel = s.working, func() {}
	if options.Duration > 0 {
		s.sending, s.cancel = context.WithTimeout(s.working, options.Duration)
	}
	s.began = time.Now()
	s.rec.began = s.began
	if options.Schedule != nil {
		s.tasks.Go(s.dispatch)
	} else {
		s.openCallers()
	}
	go func() {
		s.tasks.Wait()
		s.ended = time.Now()
		s.cancel()
		s.abandon()
		close(s.done)
	}()
	return s, nil
}

// Run carries a run to its end.
func Run(ctx context.Context, options Options) (*Result, error) {
	s, err := Start(ctx, options)
	if err != nil {
		return nil, err
	}
	return s.Wait(), nil
}

// Wait returns the result once everything that was sent has been answered.
func (s *Session) Wait() *Result {
	<-s.done
	return s.rec.result(&s.options, s.ended)
}

// Stop ends the run at once. Answers that have not come to their end are left
// out of the result.
func (s *Session) Stop() *Result {
	s.abandon()
	return s.Wait()
}

// Done is closed at the end of the run.
func (s *Session) Done() <-chan struct{} { return s.done }

// Reset forgets what was measured so far, so that a warm-up does not count.
func (s *Session) Reset() { s.rec.reset() }

// Counters returns the totals since the start or the last Reset.
func (s *Session) Counters() Counters { return s.rec.counters() }

// Snapshot returns the result as it would be now.
func (s *Session) Snapshot() *Result { return s.rec.result(&s.options, time.Now()) }

// take returns the number of the next request; ok is false when enough were sent.
func (s *Session) take() (n int, ok bool) {
	n = int(s.tickets.Add(1) - 1)
	return n, s.options.Count == 0 || n < s.options.Count
}

// openCallers starts a closed loop.
func (s *Session) openCallers() {
	n := s.options.Concurrency
	for i := range n {
		delay := s.options.RampUp * time.Duration(i) / time.Duration(n)
		s.tasks.Go(func() { s.call(delay) })
	}
}

// call is one caller of a closed loop.
func (s *Session) call(delay time.Duration) {
	w := s.newWorker()
	defer w.x.conn.close(false)
	if !pause(s.sending, delay) {
		return
	}
	for s.sending.Err() == nil {
		n, ok := s.take()
		if !ok {
			return
		}
		w.perform(n, time.Now())
		if w.x.code != codeOK && !pause(s.sending, 10*time.Millisecond) { // a server that is down is not hammered
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// worker carries requests out, one at a time, on a connection of its own.
type worker struct {
	s    *Session
	x    exchange
	jobs chan job // of an open loop
}

type job struct {
	n        int
	intended time.Time
}

func (s *Session) newWorker() *worker {
	return &worker{s: s, x: exchange{conn: &connection{target: &s.options.Target}, rec: s.rec}}
}

func (w *worker) perform(n int, intended time.Time) {
	o := &w.s.options
	w.x.reset(o.Requests[n%len(o.Requests)], intended)
	key := ""
	if keys := o.Target.Keys; len(keys) > 0 {
		key = keys[n%len(keys)]
	}
	w.s.rec.started()
	w.x.perform(w.s.working, key, o.Timeout)
	w.s.rec.finished(&w.x)
}
