package load

import "sync"

// dispatch is an open loop: each request goes out when the schedule says so,
// whatever became of those before it.
func (s *Session) dispatch() {
	defer s.crew.dismiss()
	clock := newClock()
	defer clock.close()
	s.crew.limit = s.options.Concurrency
	for at := range s.options.Schedule {
		intended := s.began.Add(at)
		if s.options.Duration > 0 && at >= s.options.Duration {
			return
		}
		if !clock.sleepUntil(s.sending, intended) {
			return
		}
		n, ok := s.take()
		if !ok {
			return
		}
		if w, isNew := s.crew.assign(s, job{n, intended}); isNew {
			s.tasks.Go(w.serve)
		}
	}
}

// crew are the workers of an open loop.
type crew struct {
	mu        sync.Mutex
	idle      []*worker // the last one to become idle is the first to be used
	waiting   []job     // for a worker, when there may be no more of them
	size      int
	limit     int
	dismissed bool
}

// assign gives the job to a worker, or makes it wait for one. A new worker must
// be set to work by the caller.
func (c *crew) assign(s *Session, j job) (w *worker, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.idle); n > 0 {
		w, c.idle = c.idle[n-1], c.idle[:n-1]
		w.jobs <- j
		return w, false
	}
	if c.limit > 0 && c.size >= c.limit {
		c.waiting = append(c.waiting, j)
		return nil, false
	}
	c.size++
	w = s.newWorker()
	w.jobs = make(chan job, 1)
	w.jobs <- j
	return w, true
}

// rest returns the next job that waits for a worker, or notes that w is idle.
// more is false when w may leave.
func (c *crew) rest(w *worker) (j job, waited, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) > 0 {
		j, c.waiting = c.waiting[0], c.waiting[1:]
		return j, true, true
	}
	if c.dismissed {
		return job{}, false, false
	}
	c.idle = append(c.idle, w)
	return job{}, false, true
}

// dismiss lets idle workers leave, and the others when they are done.
func (c *crew) dismiss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dismissed = true
	for _, w := range c.idle {
		close(w.jobs)
	}
	c.idle = nil
}

// serve carries out jobs until there will be no more.
func (w *worker) serve() {
	defer w.x.conn.close(false)
	for {
		j, ok := <-w.jobs
		for waited := ok; waited; {
			if w.s.working.Err() != nil {
				return
			}
			w.perform(j.n, j.intended)
			var more bool
			if j, waited, more = w.s.crew.rest(w); !more {
				return
			}
		}
		if !ok {
			return
		}
	}
}
