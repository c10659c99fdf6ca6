package auth

import (
	"fmt"
	"strconv"
	"time"
)

// Origin says how a key came into the world.
type Origin string

// The ways in which keys are made.
const (
	FromCLI     Origin = "cli"
	FromConsole Origin = "console"
	FromDevice  Origin = "device"
	FromAPI     Origin = "api"
)

// State says whether a key works.
type State string

// The states of a key. Revocation outranks expiry.
const (
	Active  State = "active"
	Expired State = "expired"
	Revoked State = "revoked"
)

// Retention is how long a dead key stays listed before the store forgets it.
const Retention = 90 * 24 * time.Hour

// Key is the store's record of a key, without anything secret.
type Key struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Owner   string    `json:"owner"`
	Plan    string    `json:"plan"`
	Last4   string    `json:"last4"`
	Origin  Origin    `json:"origin"`
	State   State     `json:"state"` // when it was read, by the store's clock
	Pepper  int       `json:"pepper"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	Revoked time.Time `json:"revoked,omitzero"`
	Used    time.Time `json:"used,omitzero"` // to the minute

	lifetime time.Duration // that it was made with; 0: for ever
	digest   string
}

// dead returns nil, ErrExpired or ErrRevoked.
func (k Key) dead() error {
	switch k.State {
	case Revoked:
		return ErrRevoked
	case Expired:
		return ErrExpired
	}
	return nil
}

// end is when a dead key died.
func (k Key) end() time.Time {
	if k.Revoked.IsZero() {
		return k.Expires
	}
	return k.Revoked
}

// parseKey reads a hash of the store; now is the store's time.
func parseKey(owner, id string, hash map[string]string, now time.Time) (Key, error) {
	n := numbers{hash: hash}
	k := Key{
		ID: id, Owner: owner,
		Name: hash[FieldName], Plan: hash[FieldPlan], Last4: hash[FieldLast4],
		Origin: Origin(hash[FieldOrigin]), digest: hash[FieldDigest],
		Pepper:  int(n.get(FieldPepper)),
		Created: n.time(FieldCreated), Expires: n.time(FieldExpires),
		Revoked: n.time(FieldRevoked), Used: n.time(FieldUsed),
		lifetime: time.Duration(n.get(fieldLifetime)) * time.Millisecond,
	}
	k.State = stateAt(k, now)
	if n.err != nil {
		return Key{}, fmt.Errorf("record of key %s: %w", id, n.err)
	}
	return k, nil
}

func stateAt(k Key, now time.Time) State {
	switch {
	case !k.Revoked.IsZero():
		return Revoked
	case !k.Expires.IsZero() && !k.Expires.After(now):
		return Expired
	}
	return Active
}

// numbers reads numeric fields and keeps the first error.
type numbers struct {
	hash map[string]string
	err  error
}

func (n *numbers) get(field string) int64 {
	text := n.hash[field]
	if text == "" {
		return 0
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil && n.err == nil {
		n.err = fmt.Errorf("field %s: %w", field, err)
	}
	return value
}

func (n *numbers) time(field string) time.Time {
	ms := n.get(field)
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
