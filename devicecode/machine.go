package devicecode

import (
	"errors"
	"time"
)

// State is what the store says of a code. That its life may be over comes on
// top.
type State string

// The states of a code.
const (
	Pending  State = "pending"
	Approved State = "approved"
	Denied   State = "denied"
	Used     State = "used"
)

// Machine is one code. Its methods are pure: they change nothing but it.
type Machine struct {
	State    State         `json:"state"`
	Asked    Asked         `json:"asked"`
	Expires  time.Time     `json:"expires"`
	Interval time.Duration `json:"interval"` // that the client must keep between polls
	Polled   time.Time     `json:"polled"`   // when it was last answered
	Approval Approval      `json:"approval,omitzero"`
}

// Asked is what a person must know of a code before deciding.
type Asked struct {
	ClientID string        `json:"client_id,omitempty"` // what the program calls itself; empty: nothing
	Client   string        `json:"client"`              // the same, or a name for nothing
	Address  string        `json:"address"`             // where it asked from
	Scope    string        `json:"scope,omitempty"`     // the plan that it asks for; empty: any
	Started  time.Time     `json:"started"`
	KeyLife  time.Duration `json:"key_life"` // of the key that it would get
}

// Approval is what a person gave.
type Approval struct {
	Owner  string        `json:"owner"`
	Plan   string        `json:"plan"`
	Name   string        `json:"name"` // of the key
	Life   time.Duration `json:"life"` // of the key
	Ticket string        `json:"ticket"`
}

// Outcome is what a poll comes to.
type Outcome string

// The outcomes of a poll.
const (
	StillPending Outcome = "authorization_pending"
	TooFast      Outcome = "slow_down"
	Redeem       Outcome = "redeem" // the caller makes the key and then calls Redeemed
	WasDenied    Outcome = "access_denied"
	HasExpired   Outcome = "expired_token"
	WasUsed      Outcome = "invalid_grant"
)

const (
	// slowDown is added to the interval for good by every poll that came too
	// early (RFC 8628, section 3.5), up to maxInterval.
	slowDown    = 5 * time.Second
	maxInterval = time.Minute
	// leeway is how much of the interval a network may swallow: two polls that
	// left 5 s apart may arrive a little closer.
	leeway = 500 * time.Millisecond
)

// ErrDecided says that a code is not pending any more.
var ErrDecided = errors.New("code is not pending")

// Poll answers a poll that came at now. Pacing holds while the code is pending;
// what has been decided is never held back.
func (m *Machine) Poll(now time.Time) Outcome {
	switch {
	case m.State == Denied:
		return WasDenied
	case m.State == Used:
		return WasUsed
	case m.over(now):
		return HasExpired
	case m.State == Approved:
		return Redeem
	case now.Before(m.Polled.Add(m.Interval - leeway)):
		m.Interval = min(m.Interval+slowDown, maxInterval)
		return TooFast
	}
	m.Polled = now
	return StillPending
}

// Approve is a person's yes.
func (m *Machine) Approve(now time.Time, a Approval) error {
	if err := m.undecided(now); err != nil {
		return err
	}
	m.State, m.Approval = Approved, a
	return nil
}

// Deny is a person's no.
func (m *Machine) Deny(now time.Time) error {
	if err := m.undecided(now); err != nil {
		return err
	}
	m.State = Denied
	return nil
}

// Redeemed says that the key was made, or was not to be made any more.
func (m *Machine) Redeemed(made bool) {
	m.State = Used
	if !made {
		m.State = Denied
	}
}

func (m *Machine) undecided(now time.Time) error {
	if m.State != Pending || m.over(now) {
		return ErrDecided
	}
	return nil
}

func (m *Machine) over(now time.Time) bool { return !now.Before(m.Expires) }
