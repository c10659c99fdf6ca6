package balancer

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	queuePoll = 100 * time.Millisecond // between two looks at what changes by time alone: breakers, caps
	passOver  = 512                    // requests that a look may pass over, because no free replica serves their model
	passOwn   = 64                     // of these, of one caller

	leastRetry  = 100 * time.Millisecond
	unsureRetry = time.Second // as long as nothing is known of the pool's speed
)

// queue is what waits for a place in a pool.
type queue struct {
	length atomic.Int64 // of order, to be read without the lock
	drain  drain

	mu      sync.Mutex // guards what follows; nothing is called under it that could wait
	order   order
	expiry  heapOf[*Waiter] // those that will not wait for ever, the first to give up first
	serial  uint64
	looked  int64 // when it was last tried to serve somebody
	ticking bool  // a timer runs
	counts  QueueCounts
}

// QueueCounts are what became of requests that had to wait, so far.
type QueueCounts struct {
	Served  uint64 `json:"served"`
	Left    uint64 `json:"left"`    // the client went away
	Expired uint64 `json:"expired"` // waited as long as they would
	Refused uint64 `json:"refused"` // not let wait
}

// Waiter is a request that waits, or has waited.
type Waiter struct {
	pool     *Pool
	need     Need
	grant    func(*Lease, error)
	lease    Lease
	payer    *payer
	cost     int64 // tokens
	since    int64
	expires  int64
	deadline int64 // 0: none
	serial   uint64
	place    int     // in its caller's line; -1 when it does not wait
	clock    int     // in expiry, likewise
	origin   *Waiter // in a copy of the order: whom it stands for
}

func (q *queue) begin() {
	q.expiry = heapOf[*Waiter]{
		less: func(a, b *Waiter) bool { return a.expires < b.expires },
		note: func(w *Waiter, place int) { w.clock = place },
	}
}

// Request asks for a place without blocking. Grant is called exactly once,
// unless Cancel comes before: with a lease, which then is the receiver's to
// end, or with an error as of Acquire. It may be called before Request returns,
// or later by whoever makes a place free; never under a lock.
//
// Who calls this instead of Acquire must call Expire when NextExpiry says so.
func (p *Pool) Request(need Need, grant func(*Lease, error)) *Waiter {
	p.admit(&need)
	w := &Waiter{pool: p, need: need, grant: grant, place: -1, clock: -1}
	if !p.mustWait() && p.tryAcquire(&w.need, &w.lease) {
		grant(&w.lease, nil)
		return w
	}
	err := p.enqueue(w)
	p.serve() // a place may have become free since
	switch {
	case err == nil: // it waits, or did
	case p.tryAcquire(&w.need, &w.lease): // a place that nobody who waits can use
		grant(&w.lease, nil)
	default:
		grant(nil, err)
	}
	return w
}

// Cancel gives up waiting, and reports whether it came before the grant.
func (w *Waiter) Cancel() bool {
	q := &w.pool.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.place < 0 {
		return false
	}
	q.take(w)
	q.counts.Left++
	return true
}

// NextExpiry is when Expire must be called at the latest, on the pool's clock;
// not ok when nobody waits.
func (p *Pool) NextExpiry() (at int64, ok bool) {
	q := &p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.order.length == 0 {
		return 0, false
	}
	return min(q.expiry.first().expires, q.looked+int64(queuePoll)), true
}

// Expire ends the wait of those who have waited long enough, and serves those
// for whom time alone has made a place.
func (p *Pool) Expire(now int64) {
	p.learnDrain(now)
	for {
		w, err := p.expired(now)
		if w == nil {
			break
		}
		w.grant(nil, err)
	}
	p.serve()
}

// mustWait reports whether others were first.
func (p *Pool) mustWait() bool { return p.queue.length.Load() > 0 }

// wait is the slow part of Acquire.
func (p *Pool) wait(ctx context.Context, need Need) (Lease, error) {
	type granted struct {
		lease *Lease
		err   error
	}
	done := make(chan granted, 1)
	w := &Waiter{pool: p, need: need, place: -1, clock: -1, grant: func(l *Lease, err error) { done <- granted{l, err} }}
	err := p.enqueue(w)
	p.tick()
	p.serve() // a place may have become free since
	if err != nil {
		if p.tryAcquire(&w.need, &w.lease) {
			return w.lease.moved(), nil // one that nobody who waits can use
		}
		return Lease{}, err
	}
	select {
	case g := <-done:
		return g.lease.moved(), g.err
	case <-ctx.Done():
	}
	if !w.Cancel() {
		if g := <-done; g.err == nil {
			g.lease.Done(Unused)
		}
	}
	return Lease{}, ctx.Err()
}

// moved is the lease for another owner; the old one must not be used any more.
func (l *Lease) moved() Lease {
	if l == nil {
		return Lease{}
	}
	return Lease{
		pool: l.pool, replica: l.replica, tokens: l.tokens, work: l.work, sent: l.sent,
		probe: l.probe, why: l.why, payer: l.payer, charged: l.charged,
	}
}

// enqueue lets w wait, or says why it does not.
func (p *Pool) enqueue(w *Waiter) error {
	now := p.clock()
	p.learnDrain(now)
	patient := w.need.Turn.Wait < 0 && w.need.Avoid[0] == nil
	if !patient && p.hopeless(&w.need) {
		return ErrNoReplica
	}
	q := &p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	bounds := p.options.Load().Queue.filled()
	w.begin(now, w.need.Turn.limit(bounds.MaxWait))
	if err := p.refusal(w, bounds); err != nil {
		q.counts.Refused++
		return err
	}
	q.serial++
	w.serial = q.serial
	q.order.add(w)
	q.expiry.push(w)
	q.length.Store(int64(q.order.length))
	return nil
}

func (w *Waiter) begin(now int64, limit time.Duration) {
	w.cost = max(w.need.Tokens+w.need.Output, 1)
	w.since, w.expires = now, now+int64(limit)
	if within := w.need.Turn.Within; within > 0 {
		w.deadline = now + int64(within)
	}
	if w.need.Avoid[0] != nil {
		w.need.Turn.Caller, w.need.Turn.Weight = "", 1 // all those in front are one line
	}
}

// refusal is why w may not wait, or nil. The queue is locked.
func (p *Pool) refusal(w *Waiter, bounds QueueOptions) error {
	q, limit := &p.queue, time.Duration(w.expires-w.since)
	wait := p.predict(w)
	late := max(wait-limit, leastRetry)
	if wait == 0 {
		late = unsureRetry
	}
	switch {
	case limit == 0, q.order.length >= bounds.MaxLength:
		return &Busy{Wait: wait, RetryAfter: late}
	case q.order.waiting(w.priority(), w.need.Turn.Caller) >= bounds.MaxPerCaller && w.need.Avoid[0] == nil:
		return &Busy{Wait: wait, RetryAfter: late, Own: true}
	case wait > limit && w.need.Turn.Wait >= 0:
		return &Busy{Wait: wait, RetryAfter: late}
	}
	return nil
}

// predict is how long w would wait if nobody else came; 0 if that is not known.
func (p *Pool) predict(w *Waiter) time.Duration {
	q, underWay := &p.queue, int64(0)
	for _, r := range p.Replicas() {
		underWay += r.InFlight()
	}
	rate := q.drain.perSecond(underWay)
	if rate <= 0 {
		return 0
	}
	ahead := 0.0 // requests
	if q.order.length > 0 {
		tokens := q.order.ahead(w.priority(), &w.need.Turn, w.deadline)
		ahead = tokens / (float64(q.order.dues()) / float64(q.order.length))
	}
	seconds := min((ahead+1)/rate, math.MaxInt32)
	return time.Duration(seconds * float64(time.Second))
}

// serve grants places to those whose turn it is, for as long as there are any.
func (p *Pool) serve() {
	for p.mustWait() {
		w := p.nextServed()
		if w == nil {
			return
		}
		w.grant(&w.lease, nil)
	}
}

// nextServed takes the first out of the queue for whom there is a place.
func (p *Pool) nextServed() *Waiter {
	q := &p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.looked = p.clock()
	w := p.place()
	if w == nil {
		return nil
	}
	q.order.remove(w)
	q.order.served(w)
	q.expiry.remove(w.clock)
	q.length.Store(int64(q.order.length))
	w.lease.payer, w.lease.charged = w.payer, w.cost
	q.counts.Served++
	return w
}

// place finds a place for somebody, and leaves all in the queue. Those are
// passed over who need a model that no free replica serves, or must avoid the
// free ones; if one that could use any replica finds none, none is free. Who is
// passed over is charged nothing and stays first, so a caller with many such
// requests is left out altogether, or it would hold up everybody.
func (p *Pool) place() *Waiter {
	o := &p.queue.order
	var passed []*Waiter
	var aside []*payer
	var unserved []string // models that have found no place
	defer func() {
		for _, who := range aside {
			o.takeBack(who)
		}
		for _, w := range passed {
			w.payer.passed = 0
			o.insert(w)
		}
	}()
	for o.length > 0 && len(passed) < passOver {
		w := o.next()
		known := slices.Contains(unserved, w.need.Model)
		switch anywhere := w.need.Avoid[0] == nil; {
		case !known && p.tryAcquire(&w.need, &w.lease):
			return w
		case w.need.Model == "" && anywhere:
			return nil
		case !known && anywhere:
			unserved = append(unserved, w.need.Model)
		}
		o.remove(w)
		passed = append(passed, w)
		if w.payer.passed++; w.payer.passed == passOwn && w.payer.place >= 0 {
			o.setAside(w.payer)
			aside = append(aside, w.payer)
		}
	}
	return nil
}

// expired takes out one who has waited long enough. While all replicas are gone
// those who wait go on waiting, because one may come back in time; only who
// comes then is refused at once.
func (p *Pool) expired(now int64) (*Waiter, error) {
	q := &p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.order.length == 0 || q.expiry.first().expires > now {
		return nil, nil
	}
	w := q.expiry.first()
	q.take(w)
	q.counts.Expired++
	if p.hopeless(&w.need) {
		return w, ErrNoReplica
	}
	wait := p.predict(w)
	return w, &Busy{Wait: wait, RetryAfter: max(wait, leastRetry)}
}

// take removes one that is not served. The queue is locked.
func (q *queue) take(w *Waiter) {
	q.order.remove(w)
	q.order.forget(w.payer)
	q.expiry.remove(w.clock)
	q.length.Store(int64(q.order.length))
}

// hopeless reports whether no replica could take the request, however few
// requests there were.
func (p *Pool) hopeless(need *Need) bool {
	q := p.question(need)
	m := p.members.Load()
	for _, list := range [...][]*Replica{m.ready, m.suspects} {
		for _, r := range list {
			if o := q.objection(r); o == "" || o == objectFull {
				return false
			}
		}
	}
	return true
}

// leaseEnded passes a place on, and corrects what its caller was charged.
func (p *Pool) leaseEnded(l *Lease, o Outcome) {
	if l.payer != nil {
		p.queue.correct(l, o)
	}
	p.serve()
}

func (q *queue) correct(l *Lease, o Outcome) {
	used := l.used
	if used == 0 {
		used = l.charged
	}
	if o.fault() || o == Unused || o == QueueFull {
		used = 0 // the caller got nothing
	}
	q.mu.Lock()
	l.payer.charge(used - l.charged)
	q.mu.Unlock()
}

// tick makes sure that a timer calls Expire while somebody waits.
func (p *Pool) tick() {
	q := &p.queue
	q.mu.Lock()
	start := !q.ticking && q.order.length > 0
	q.ticking = q.ticking || start
	q.mu.Unlock()
	if start {
		time.AfterFunc(queuePoll, p.ticked)
	}
}

func (p *Pool) ticked() {
	now := p.clock()
	p.Expire(now)
	next, more := p.NextExpiry()
	if more {
		time.AfterFunc(max(time.Duration(next-p.clock()), time.Millisecond), p.ticked)
		return
	}
	p.queue.mu.Lock()
	p.queue.ticking = false
	p.queue.mu.Unlock()
	p.tick() // for one that came since
}

// priority is the class in which w waits.
func (w *Waiter) priority() int {
	if w.need.Avoid[0] != nil {
		return frontClass
	}
	return w.need.Turn.Priority
}

// before is the order of one caller's requests.
func (w *Waiter) before(other *Waiter) bool {
	if w.deadline != other.deadline {
		return other.deadline == 0 || w.deadline != 0 && w.deadline < other.deadline
	}
	return w.serial < other.serial
}
