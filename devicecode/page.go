package devicecode

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"slices"
	"time"
)

// ErrWrongCode is the answer for codes that are unknown, decided or expired,
// and for what cannot be a code: all alike.
var ErrWrongCode = errors.New("no such code is waiting")

// Caps on wrong codes. With 1,000 codes waiting, 100 guesses a minute for 10
// minutes find one with a probability of 4 in 100,000.
const (
	wrongEach    = 5
	wrongEachPer = 10 * time.Minute
	wrongAll     = 100
	wrongAllPer  = time.Minute
)

// Visitor is who typed a code.
type Visitor struct {
	Owner   string // who signed in
	Address netip.Addr
}

// Waiting is a code that waits for a person's decision.
type Waiting struct {
	Asked
	UserCode string // normalised
	Expires  time.Time
	Now      time.Time // by the clock that Started and Expires are of
}

// LookUp finds the code that a visitor typed. It returns ErrWrongCode, a
// *TooMany, or ErrStore.
func (s *Service) LookUp(ctx context.Context, v Visitor, typed string) (Waiting, error) {
	e, userCode, err := s.find(ctx, v, typed)
	if err != nil {
		return Waiting{}, err
	}
	return Waiting{e.Asked, userCode, e.Expires, e.now}, nil
}

// Approve says yes to a code: the client's next poll makes a key of the plan
// for the visitor. Errors are those of LookUp, and ErrNotAllowed.
func (s *Service) Approve(ctx context.Context, v Visitor, typed, plan string) (Waiting, error) {
	if len(s.Plans) > 0 && !slices.Contains(s.Plans, plan) {
		return Waiting{}, ErrNotAllowed
	}
	if err := s.Allowed(ctx, v.Owner, plan); err != nil {
		return Waiting{}, err
	}
	e, userCode, err := s.find(ctx, v, typed)
	if err != nil {
		return Waiting{}, err
	}
	a := Approval{Owner: v.Owner, Plan: plan, Name: e.Asked.Client, Life: e.Asked.KeyLife, Ticket: rand.Text()}
	// The ticket first: without it an approved code would be worth nothing.
	if err := s.Promise(ctx, a, e.Expires.Sub(e.now)); err != nil {
		return Waiting{}, err
	}
	err = s.decide(ctx, &e, "device approved", func(m *Machine, now time.Time) error { return m.Approve(now, a) })
	if err != nil {
		s.TearUp(ctx, a)
		return Waiting{}, err
	}
	return Waiting{e.Asked, userCode, e.Expires, e.now}, nil
}

// Deny says no to a code. Errors are those of LookUp.
func (s *Service) Deny(ctx context.Context, v Visitor, typed string) (Waiting, error) {
	e, userCode, err := s.find(ctx, v, typed)
	if err != nil {
		return Waiting{}, err
	}
	e.Approval.Owner = v.Owner // who denied it
	if err := s.decide(ctx, &e, "device denied", (*Machine).Deny); err != nil {
		return Waiting{}, err
	}
	return Waiting{e.Asked, userCode, e.Expires, e.now}, nil
}

// find looks a code up after it has taken an attempt, and gives the attempt
// back if the code is one that waits. Taking it first keeps the count exact
// however many guesses come at once.
func (s *Service) find(ctx context.Context, v Visitor, typed string) (entry, string, error) {
	undo, wait, err := s.attempts.Try(ctx,
		Cap{"wrong-by:" + v.Owner, wrongEach, wrongEachPer},
		Cap{"wrong-from:" + network(v.Address).String(), wrongEach, wrongEachPer},
		Cap{"wrong", wrongAll, wrongAllPer})
	if err != nil {
		return entry{}, "", err
	}
	if wait > 0 {
		return entry{}, "", &TooMany{Wait: wait}
	}
	userCode, ok := Normalise(typed)
	if !ok {
		userCode = "-" // looked for like any other
	}
	e, err := s.store.byUserCode(ctx, userCode)
	switch {
	case errors.Is(err, errUnknown), err == nil && e.undecided(e.now) != nil:
		return entry{}, "", ErrWrongCode
	case err != nil:
		return entry{}, "", err
	}
	undo(ctx)
	return e, userCode, nil
}

// decide changes the code, starting over when a poll changed it meanwhile.
func (s *Service) decide(ctx context.Context, e *entry, what string, change func(*Machine, time.Time) error) error {
	for range pollTries {
		if change(&e.Machine, e.now) != nil {
			return ErrWrongCode
		}
		done, err := s.store.swap(ctx, *e)
		if err != nil {
			return err
		}
		if done {
			s.audit(ctx, what, *e, "")
			return nil
		}
		owner := e.Approval.Owner
		if *e, err = s.store.byDigest(ctx, e.digest); err != nil {
			return err
		}
		if what == "device denied" {
			e.Approval.Owner = owner
		}
	}
	return ErrStore
}
