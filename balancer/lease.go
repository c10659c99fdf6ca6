package balancer

import "sync/atomic"

// Outcome says how a lease ended, and by that whose fault it was.
type Outcome uint8

// The outcomes of a lease.
const (
	Unused        Outcome = iota // nothing was sent to the replica
	Success                      // the whole answer came
	ClientLeft                   // the client went away: nobody's fault
	CallerError                  // the replica refused the request as wrong (4xx)
	QueueFull                    // the replica refused it for want of room: try another
	ReplicaFault                 // 5xx, an error event, a cut answer, an abort nobody asked for
	ConnectFailed                // no connection could be made: nothing was sent
	TimedOut                     // no byte, or no further byte, came in time

	outcomes = int(TimedOut) + 1
)

var outcomeNames = [outcomes]string{
	"unused", "success", "client_left", "caller_error",
	"queue_full", "replica_fault", "connect_failed", "timed_out",
}

// Outcomes lists every outcome, for those who count them.
func Outcomes() []Outcome {
	all := make([]Outcome, outcomes)
	for i := range all {
		all[i] = Outcome(i)
	}
	return all
}

// String is the outcome's name in logs and metrics.
func (o Outcome) String() string { return outcomeNames[o] }

// The stages of a lease.
const (
	leaseHeld uint32 = iota
	leaseAnswered
	leaseDone
)

// Lease is a place on a replica, to be released once. It is a value so that it
// costs no allocation: keep it in one place and do not copy it after use. Its
// methods may be called from several goroutines, and do nothing on the zero
// Lease.
type Lease struct {
	replica *Replica
	tokens  int64
	stage   atomic.Uint32
}

// Replica is where the request goes; nil for the zero Lease.
func (l *Lease) Replica() *Replica { return l.replica }

// FirstByte reports that the answer's body has begun: the prompt has been
// worked off, whatever comes of the rest. Only the first call counts.
func (l *Lease) FirstByte() {
	if l.replica != nil && l.stage.CompareAndSwap(leaseHeld, leaseAnswered) {
		l.replica.prefill.Add(-l.tokens)
	}
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
	if before == leaseHeld {
		l.replica.prefill.Add(-l.tokens)
	}
	l.replica.inFlight.Add(-1)
	l.replica.endings[o].Add(1)
}
