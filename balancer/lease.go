package balancer

import (
	"sync/atomic"
	"time"
)

// The stages of a lease.
const (
	leaseHeld uint32 = iota
	leaseAnswered
	leaseDone
)

// fullPause is how long a replica whose queue was full is left alone, if there
// are others. A refusal is quick, so without the pause it would look idle and
// draw every request.
const fullPause = 500 * time.Millisecond

// Lease is a place on a replica, to be released once. It is a value so that it
// costs no allocation: keep it in one place and do not copy it after use. Its
// methods may be called from several goroutines, and do nothing on the zero
// Lease.
type Lease struct {
	pool    *Pool
	replica *Replica
	tokens  int64   // of the prompt that the replica is not believed to hold
	work    float64 // that lay before the first token when it was sent
	sent    int64
	probe   func(error) // the breaker's, if this request is its probe
	payer   *payer      // who is charged, if the request has waited
	charged int64       // tokens
	used    int64       // tokens that it took; 0: not known
	why     Why
	stage   atomic.Uint32
}

// Why says in few words why a replica was chosen; Pool.Explain says more, as
// long as the moment lasts.
type Why struct {
	Rank     string // ready: the least load of those that are; suspect: none is ready; full: every queue was full a moment ago
	Of       int    // replicas that were ready
	InFlight int64  // this gateway's requests on the chosen one, this one included
}

// rankNames are what a Why calls the ranks.
var rankNames = [...]string{rankReady: "ready", rankSuspect: "suspect", rankFull: "full"}

// Why tells why the replica was chosen; zero for the zero Lease.
func (l *Lease) Why() Why { return l.why }

// Replica is where the request goes; nil for the zero Lease.
func (l *Lease) Replica() *Replica { return l.replica }

// FirstByte reports that the answer's body has begun: the prompt has been
// worked off and the replica works, whatever comes of the rest. Only the first
// call counts.
func (l *Lease) FirstByte() {
	if l.replica == nil || !l.stage.CompareAndSwap(leaseHeld, leaseAnswered) {
		return
	}
	l.replica.prefill.Add(-l.tokens)
	l.judge(Success)
}

// FirstToken is FirstByte for a streamed answer, whose first byte tells how fast
// the replica works.
func (l *Lease) FirstToken() {
	if l.replica != nil && l.stage.Load() == leaseHeld {
		ms := float64(l.pool.clock()-l.sent) / 1e6
		l.pool.speed.learn(l.work, ms, usualRate, poolTime)
		l.replica.rate.learn(l.work, ms, l.pool.prior(), priorTime)
	}
	l.FirstByte()
}

// Done ends the lease. Only the first call counts.
func (l *Lease) Done(o Outcome) {
	if l.replica == nil {
		return
	}
	before := l.stage.Swap(leaseDone)
	if before == leaseDone {
		return
	}
	r := l.replica
	if before == leaseHeld {
		r.prefill.Add(-l.tokens)
		l.judge(o)
	} else if o.fault() {
		r.breaker.failed() // beside the success that the first byte was
	}
	r.inFlight.Add(-1)
	r.endings[o].Add(1)
	l.pool.heed(r, o)
	l.pool.leaseEnded(l, o)
}

// Used tells how many tokens the request took, of prompt and answer, so that its
// caller's turn to wait is charged for these and not for what was expected. It
// must be called before Done, by who calls that.
func (l *Lease) Used(tokens int64) { l.used = tokens }

// judge tells the breaker, once per lease, how the request went.
func (l *Lease) judge(o Outcome) {
	b := l.replica.breaker
	fault := o.fault() && (o != ConnectFailed || !l.pool.watched()) // a check finds that out better
	switch {
	case l.probe != nil && fault:
		b.faultAt.Store(b.clock())
		l.probe(errFault)
	case l.probe != nil && o == Success:
		l.probe(nil)
	case l.probe != nil:
		l.probe(errExcluded)
	case fault:
		b.failed()
	case o == Success:
		b.succeeded()
	}
}
