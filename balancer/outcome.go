package balancer

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

// fault reports whether the replica is to blame.
func (o Outcome) fault() bool {
	return o == ReplicaFault || o == TimedOut || o == ConnectFailed
}
