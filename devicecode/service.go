package devicecode

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/redis/go-redis/v9"
)

// Options is what a Service is made of.
type Options struct {
	Redis   redis.UniversalClient
	Service string // the service word

	// VerificationURI is the page on which people type the code.
	VerificationURI string
	CodeLife        time.Duration
	Interval        time.Duration // between two polls
	KeyLife         time.Duration // of keys that are made this way
	Plans           []string      // that keys made this way may have; empty: every plan
	Pending         int           // undecided codes at any time
	StartsEach      int           // codes that one address may start in a code's life
	Polls           int           // a second, on this gateway
	PollsEach       int           // a second and address, on this gateway

	// Seal marks a record as ours, and Open says whether a record is.
	Seal func(name string, content []byte) []byte
	Open func(name string, sealed []byte) ([]byte, bool)
	// PlanExists is asked for the plan that a client names as its scope.
	PlanExists func(plan string) bool
	// CheckName says what is wrong with the name of a key.
	CheckName func(name string) error
	// Allowed says whether owner may have a key of this plan: nil, ErrNotAllowed
	// or that it cannot be known. It is asked at approval and again when the key
	// is made.
	Allowed func(ctx context.Context, owner, plan string) error
	// Promise writes the ticket of an approval, TearUp takes it back, and Issue
	// makes the one key that it stands for, or returns ErrTicketUsed.
	Promise func(ctx context.Context, a Approval, life time.Duration) error
	TearUp  func(ctx context.Context, a Approval)
	Issue   func(ctx context.Context, a Approval) (Issued, error)
	// Audit is told what became of codes. It must be quick or give up.
	Audit func(ctx context.Context, e Event)
}

// Issued is a key that was made.
type Issued struct {
	ID, Plaintext string
	Life          time.Duration
}

// What functions of Options return.
var (
	ErrNotAllowed = errors.New("owner may not have a key of this plan")
	ErrTicketUsed = errors.New("ticket is used up")
)

// Event is something for the audit log.
type Event struct {
	What    string // "device approved", "device denied", "device refused", "key created"
	Owner   string
	KeyID   string
	Client  string
	Plan    string
	Address string
}

// Service is the device flow. It is safe for use from many goroutines.
type Service struct {
	Options
	store    *store
	attempts *Attempts
	polls    *throttle
}

// New makes the device flow of one service. It does not call Redis.
func New(o Options) *Service {
	prefix := o.Service + ":device:{codes}:"
	return &Service{
		Options:  o,
		store:    &store{rdb: o.Redis, prefix: prefix, seal: o.Seal, open: o.Open},
		attempts: NewAttempts(o.Redis, prefix),
		polls:    newThrottle(o.Polls, o.PollsEach),
	}
}

// userCodeTries bounds the search for a user code that nobody has: with 1,000
// codes out, one try fails once in 25 million.
const userCodeTries = 4

// start makes a code.
func (s *Service) start(ctx context.Context, a Asked, from netip.Addr) (deviceCode, userCode string, err error) {
	_, wait, err := s.attempts.Try(ctx, Cap{"starts:" + network(from).String(), s.StartsEach, s.CodeLife})
	if err != nil {
		return "", "", err
	}
	if wait > 0 {
		return "", "", &TooMany{Wait: wait}
	}
	if deviceCode, err = newDeviceCode(); err != nil {
		return "", "", err
	}
	if a.Started, err = s.store.now(ctx); err != nil {
		return "", "", err
	}
	m := Machine{State: Pending, Asked: a, Expires: a.Started.Add(s.CodeLife), Interval: s.Interval}
	for range userCodeTries {
		if userCode, err = newUserCode(); err != nil {
			return "", "", err
		}
		if err = s.store.add(ctx, digestOf(deviceCode), userCode, m, s.Pending); !errors.Is(err, errTaken) {
			break
		}
	}
	if errors.Is(err, errFull) {
		err = &TooMany{Wait: s.CodeLife / 10}
	}
	return deviceCode, userCode, err
}

// TooMany says that an attempt was refused unseen.
type TooMany struct{ Wait time.Duration }

func (e *TooMany) Error() string { return fmt.Sprintf("too many attempts: wait %v", e.Wait) }

// pollTries bounds how often a poll starts over because others changed the code
// meanwhile. Each time one of them got its answer.
const pollTries = 100

// poll answers one poll; client is empty on the face that has no client_id.
// issued is set if the outcome is Redeem.
func (s *Service) poll(ctx context.Context, deviceCode, client string) (e entry, outcome Outcome, issued Issued, err error) {
	for range pollTries {
		if e, err = s.store.byDigest(ctx, digestOf(deviceCode)); err != nil {
			return e, "", issued, err
		}
		if e.Asked.ClientID != "" && client != "" && e.Asked.ClientID != client {
			return e, WasUsed, issued, nil
		}
		before := e.Machine
		if outcome = e.Poll(e.now); outcome == Redeem {
			return s.redeem(ctx, e)
		}
		if e.Machine == before {
			return e, outcome, issued, nil
		}
		if done, err := s.store.swap(ctx, e); err != nil || done {
			return e, outcome, issued, err
		}
	}
	return e, TooFast, issued, nil // a hundred others were answered while this one waited
}

// redeem makes the key of an approved code. Its ticket, not the code's state,
// sees to it that there is one only; the state is what later polls are told.
func (s *Service) redeem(ctx context.Context, e entry) (entry, Outcome, Issued, error) {
	err := s.Allowed(ctx, e.Approval.Owner, e.Approval.Plan)
	if errors.Is(err, ErrNotAllowed) {
		s.TearUp(ctx, e.Approval)
		s.finish(ctx, e, false)
		s.audit(ctx, "device refused", e, "")
		return e, WasDenied, Issued{}, nil
	}
	if err != nil {
		return e, "", Issued{}, err
	}
	issued, err := s.Issue(ctx, e.Approval)
	if errors.Is(err, ErrTicketUsed) {
		s.finish(ctx, e, true)
		return e, WasUsed, Issued{}, nil
	}
	if err != nil {
		return e, "", Issued{}, err
	}
	s.finish(ctx, e, true)
	s.audit(ctx, "key created", e, issued.ID)
	return e, Redeem, issued, nil
}

// finish may fail: the next poll finds the ticket used up and comes here again.
func (s *Service) finish(ctx context.Context, e entry, made bool) {
	e.Redeemed(made)
	_, _ = s.store.swap(ctx, e)
}

func (s *Service) audit(ctx context.Context, what string, e entry, keyID string) {
	if s.Audit != nil {
		s.Audit(ctx, Event{
			What: what, Owner: e.Approval.Owner, KeyID: keyID, Client: e.Asked.Client,
			Plan: e.Approval.Plan, Address: e.Asked.Address,
		})
	}
}
