package limits

import (
	"errors"
	"fmt"
	"time"

	"mete/auth"
)

// Kind is what a limit counts.
type Kind string

// The kinds of limits.
const (
	Requests   Kind = "requests"
	Tokens     Kind = "tokens"
	Concurrent Kind = "concurrent"
)

// ErrPlan says that a key's plan is not in the configuration. It is our fault
// and wraps auth.ErrStore, so that nobody takes it for the key's.
var ErrPlan = fmt.Errorf("%w: the key's plan is not configured", auth.ErrStore)

// errLocal says that Redis cannot be asked and the request has to be decided
// from this gateway's share.
var errLocal = errors.New("redis cannot be asked")

// State is what is left of the tightest limit of one kind: the one with the
// least remaining, and of those the one with the longest window. The zero
// State means that the plan has no limit of the kind.
type State struct {
	Limit     int64
	Remaining int64
	Per       time.Duration
	Reset     time.Duration // until all of Limit is free again if nothing else happens
}

// Refused is an error of Reserve about a key that is known, so that whoever
// writes it down can say whose request it was.
type Refused struct {
	Caller *auth.Caller // shared, not to be changed
	Err    error
}

func (e *Refused) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e *Refused) Unwrap() error { return e.Err }

// Exceeded refuses a request that a limit does not let in now.
type Exceeded struct {
	Kind  Kind
	Limit int64
	Per   time.Duration // 0 for concurrency
	// RetryAfter is when the same request is let in if nothing else happens,
	// exact to the microsecond; 1 s if concurrency is what refuses it.
	RetryAfter time.Duration
	Requests   State
	Tokens     State
}

func (e *Exceeded) Error() string {
	if e.Kind == Concurrent {
		return fmt.Sprintf("limit of %d concurrent requests is reached", e.Limit)
	}
	return fmt.Sprintf("limit of %d %s per %s is reached", e.Limit, e.Kind, e.Per)
}

// TooLarge refuses a request that no window could ever hold.
type TooLarge struct {
	Asked int64 // tokens of prompt and answer
	Limit int64
	Per   time.Duration
}

func (e *TooLarge) Error() string {
	return fmt.Sprintf("request may take %d tokens, which the limit of %d tokens per %s can never hold", e.Asked, e.Limit, e.Per)
}

// ModelDenied refuses a model that the caller's plan may not use.
type ModelDenied struct{ Model, Plan string }

func (e *ModelDenied) Error() string {
	return fmt.Sprintf("plan %q may not use model %q", e.Plan, e.Model)
}
