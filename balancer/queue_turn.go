package balancer

import (
	"fmt"
	"time"
)

// Turn says how a request waits for a place, if it has to. The zero Turn does
// not wait.
type Turn struct {
	Caller   string        // who shares with the others as one
	Weight   int           // the caller's part beside the others of its priority; 0 is 1
	Priority int           // the higher goes first
	Wait     time.Duration // the longest; 0: do not wait, Forever: as long as it takes
	Within   time.Duration // when the answer would be of no use any more, from now; 0: never
}

// Forever is a Turn's Wait that no predicted wait is too long for.
const Forever time.Duration = -1

// QueueOptions bound what waits in a pool.
type QueueOptions struct {
	MaxLength    int           // requests; 0 is 10,000
	MaxPerCaller int           // requests of one caller; 0 is MaxLength
	MaxWait      time.Duration // of any request, of Forever too; 0 is an hour
}

const (
	defaultQueueLength = 10_000
	defaultQueueWait   = time.Hour
)

// filled has the defaults in place of what is not set.
func (o QueueOptions) filled() QueueOptions {
	if o.MaxLength <= 0 {
		o.MaxLength = defaultQueueLength
	}
	if o.MaxPerCaller <= 0 {
		o.MaxPerCaller = o.MaxLength
	}
	if o.MaxWait <= 0 {
		o.MaxWait = defaultQueueWait
	}
	return o
}

// Busy says that every replica that may take the request is full, and that it
// does not wait: because it would take too long, or there is no room to wait in.
type Busy struct {
	Wait       time.Duration // predicted; 0: not known
	RetryAfter time.Duration // after which the same request would be let wait or served, if nobody else comes
	Own        bool          // it is the caller's own requests that leave no room
}

// Error implements error.
func (b *Busy) Error() string {
	switch {
	case b.Own:
		return "the caller has as many requests waiting as it may"
	case b.Wait == 0:
		return "every replica is full"
	}
	return fmt.Sprintf("every replica is full; the wait would be %s", b.Wait.Round(time.Millisecond))
}

// Is makes a Busy an ErrNoReplica.
func (b *Busy) Is(target error) bool { return target == ErrNoReplica }

// limit is how long a request of the turn may wait.
func (t *Turn) limit(most time.Duration) time.Duration {
	wait := t.Wait
	if wait < 0 || wait > most {
		wait = most
	}
	if t.Within > 0 {
		wait = min(wait, t.Within)
	}
	return wait
}
