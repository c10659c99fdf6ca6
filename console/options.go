package console

import (
	"context"
	"errors"
	"iter"
	"net/netip"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"mete/config"
)

// Options is what a Console is made of.
type Options struct {
	Service  string // the service word
	URL      string // where browsers reach the console, with its path
	APIURL   string // the API's base URL, which ends in /v1
	Settings config.Console
	Redis    redis.UniversalClient
	Seals    Seals
	Keys     Keys
	Devices  Devices // nil functions: device login is off
	Log      zerolog.Logger

	// Try takes an attempt of each cap, or says how long to wait; undo gives
	// them back.
	Try func(ctx context.Context, caps []Cap) (undo func(context.Context), wait time.Duration, err error)
	// Client is the address of whoever is behind trusted proxies.
	Client func(peer netip.Addr, forwardedFor string) netip.Addr
	// Usage reads the usage record, of one owner or of everybody.
	Usage func(ctx context.Context, owner string, since, until time.Time) ([]UsageRow, error)
	// Pools and Plans are those of now.
	Pools func() []Pool
	Plans func() []Plan
}

// Seals keep records and forms from being forged.
type Seals struct {
	Seal    func(name string, content []byte) []byte
	Open    func(name string, sealed []byte) ([]byte, bool)
	Token   func(text string) string
	Genuine func(text, token string) bool
}

// Cap allows Limit attempts in any time of length Per.
type Cap struct {
	Name  string
	Limit int
	Per   time.Duration
}

// Keys are the operations on keys. Errors are ErrNotFound for a key that is
// not there or does not work any more, *Invalid, or faults of ours.
type Keys struct {
	Create  func(ctx context.Context, k NewKey) (plaintext string, key Key, err error)
	List    func(ctx context.Context, owner string) iter.Seq2[Key, error] // owner empty: everybody's
	Get     func(ctx context.Context, id string) (Key, error)
	Rename  func(ctx context.Context, id, name string) (Key, error)
	Rotate  func(ctx context.Context, id string, overlap time.Duration) (plaintext string, key Key, err error)
	Revoke  func(ctx context.Context, id string) (Key, error)
	SetPlan func(ctx context.Context, id, plan string) (Key, error)
}

// NewKey is what a key is made from. Life 0 is for ever.
type NewKey struct {
	Name, Owner, Plan string
	Life              time.Duration
}

// Key is a key without its secret.
type Key struct {
	ID, Name, Owner, Plan, Last4  string
	Origin                        string // "console", "device", "cli", "api"
	State                         string // "active", "expired", "revoked"
	Created, Expires, Ended, Used time.Time
}

// Active reports whether the key works.
func (k Key) Active() bool { return k.State == "active" }

// Devices are the decisions on device logins. Errors are ErrWrongCode,
// ErrNotAllowed, *TooMany, or faults of ours.
type Devices struct {
	LookUp  func(ctx context.Context, v Visitor, code string) (Device, error)
	Approve func(ctx context.Context, v Visitor, code, plan string) (Device, error)
	Deny    func(ctx context.Context, v Visitor, code string) (Device, error)
	Plans   []string // the only ones for such keys; empty: every plan
}

// Visitor is who typed a code.
type Visitor struct {
	Owner   string
	Address netip.Addr
}

// Device is a program that asks for a key.
type Device struct {
	Code    string // as people read it
	Client  string
	Address string
	Plan    string // that it asks for; empty: any
	Age     time.Duration
	Left    time.Duration // until the code expires
	KeyLife time.Duration
}

// UsageRow is what one key used of one model in one hour.
type UsageRow struct {
	Hour                          time.Time
	Owner, KeyID, Model           string
	Requests, Refused             int64
	PromptTokens, CompletedTokens int64
}

// Tokens is all tokens of the row.
func (r UsageRow) Tokens() int64 { return r.PromptTokens + r.CompletedTokens }

// Pool is a pool as it is now.
type Pool struct {
	Name     string
	Models   []string
	Waiting  int // requests in the queue
	Replicas []Replica
}

// Replica is a replica as it is now.
type Replica struct {
	ID       string
	State    string // "ready" and whatever else the balancer says
	Why      string // it is in this state
	Breaker  string // "closed", "open", "half-open"; empty: has none
	InFlight int64
	Queued   int64 // requests that wait in the replica; negative: it does not say
	Answered int64 // since the gateway started
}

// Plan is a plan in words.
type Plan struct {
	Name   string
	Limits []string
	Models string
}

// What functions of Options return.
var (
	ErrNotFound   = errors.New("key is not there")
	ErrWrongCode  = errors.New("no such code is waiting")
	ErrNotAllowed = errors.New("owner may not have a key of this plan")
)

// Invalid is the error for a field that cannot be accepted.
type Invalid struct{ Param, Reason string }

func (e *Invalid) Error() string { return e.Param + " " + e.Reason }

// TooMany says that an attempt was refused unseen.
type TooMany struct{ Wait time.Duration }

func (e *TooMany) Error() string { return "too many attempts" }
