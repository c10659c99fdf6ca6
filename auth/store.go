package auth

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Store administers the keys on Redis. The request path does not come through
// here: it reads the same records in the admission script of package limits.
// A Store is safe for use from many goroutines.
type Store struct {
	layout  Layout
	rdb     redis.UniversalClient
	format  Format
	peppers *Peppers
}

// Request is what a new key is made from.
type Request struct {
	Name, Owner, Plan string
	Origin            Origin
	Lifetime          time.Duration // 0: for ever
}

// Longest and shortest lifetimes of a key that expires.
const (
	MinLifetime = time.Minute
	MaxLifetime = 10 * 365 * 24 * time.Hour
)

// NewStore returns the key store of one service. The client stays the caller's.
func NewStore(rdb redis.UniversalClient, service string, peppers *Peppers) *Store {
	return &Store{layout: NewLayout(service), rdb: rdb, format: NewFormat(service), peppers: peppers}
}

// Mark writes the marker if there is none and returns it. A gateway calls it
// once at start and remembers the answer; a store that later shows another
// marker, or none, has lost its data since.
func (s *Store) Mark(ctx context.Context) (string, error) {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", fmt.Errorf("random marker: %w", err)
	}
	if err := s.rdb.SetNX(ctx, s.layout.Marker(), hex.EncodeToString(random[:]), 0).Err(); err != nil {
		return "", storeError(err)
	}
	marker, err := s.rdb.Get(ctx, s.layout.Marker()).Result()
	if err != nil {
		return "", storeError(err)
	}
	return marker, nil
}

// Create makes a key and returns its plaintext, which cannot be had again, and
// its record. It returns an *Invalid for a bad field, else ErrStore. After an
// error nobody knows the key, whether or not a record of it was written.
func (s *Store) Create(ctx context.Context, r Request) (plaintext string, key Key, err error) {
	if err := s.check(r); err != nil {
		return "", Key{}, err
	}
	d, err := s.announced(ctx, r.Owner, r.Lifetime)
	if err != nil {
		return "", Key{}, err
	}
	key, err = s.run(ctx, createScript, d.owner, d.id, s.names(d),
		s.args(d, r.Origin, r.Name, r.Plan, r.Lifetime.Milliseconds())...)
	if err != nil {
		return "", Key{}, err
	}
	return d.plaintext, key, nil
}

// Rotate makes a key with owner, name, plan and lifetime of an old one, which
// goes on working for overlap, or until its own expiry if that comes first.
// Old and new change together or not at all. It returns ErrUnknown, ErrExpired
// or ErrRevoked if there is no working old key.
func (s *Store) Rotate(ctx context.Context, id string, overlap time.Duration, origin Origin) (plaintext string, key Key, err error) {
	if overlap < 0 || overlap > Retention {
		return "", Key{}, &Invalid{Param: "overlap", Reason: "must be between 0 and 90 days"}
	}
	old, err := s.working(ctx, id)
	if err != nil {
		return "", Key{}, err
	}
	d, err := s.announced(ctx, old.Owner, old.lifetime)
	if err != nil {
		return "", Key{}, err
	}
	key, err = s.run(ctx, rotateScript, d.owner, d.id, append(s.names(d), s.layout.Key(old.Owner, id)),
		s.args(d, origin, overlap.Milliseconds())...)
	if err != nil {
		return "", Key{}, err
	}
	if last := key.Created.Add(overlap); old.Expires.IsZero() || last.Before(old.Expires) {
		old.Expires = last
		s.retire(ctx, old)
	}
	return d.plaintext, key, nil
}

// Revoke stops a key for good. Once it has returned without error, no gateway
// that reaches the store admits another request with it. Revoking a revoked
// key changes nothing and is no error.
func (s *Store) Revoke(ctx context.Context, id string) (Key, error) {
	owner, err := s.owner(ctx, id)
	if err != nil {
		return Key{}, err
	}
	key, err := s.run(ctx, revokeScript, owner, id, []string{s.layout.Key(owner, id)})
	if err != nil {
		return Key{}, err
	}
	s.retire(ctx, key)
	return key, nil
}

// Get returns the record of the key with this id, or ErrUnknown.
func (s *Store) Get(ctx context.Context, id string) (Key, error) {
	owner, err := s.owner(ctx, id)
	if err != nil {
		return Key{}, err
	}
	keys, err := s.read(ctx, []ref{{owner: owner, id: id}})
	if err != nil {
		return Key{}, err
	}
	if len(keys) == 0 {
		return Key{}, ErrUnknown
	}
	return keys[0], nil
}

// working is Get for keys that are not dead.
func (s *Store) working(ctx context.Context, id string) (Key, error) {
	key, err := s.Get(ctx, id)
	if err != nil {
		return Key{}, err
	}
	return key, key.dead()
}

func (s *Store) check(r Request) error {
	if err := CheckName(r.Name); err != nil {
		return err
	}
	if err := CheckOwner(r.Owner); err != nil {
		return err
	}
	switch {
	case strings.Contains(r.Name, s.format.prefix):
		return &Invalid{Param: "name", Reason: "looks like a key"}
	case strings.Contains(r.Owner, s.format.prefix):
		return &Invalid{Param: "owner", Reason: "looks like a key"}
	case r.Plan == "" || len(r.Plan) > MaxNameBytes:
		return &Invalid{Param: "plan", Reason: "must have 1 to 64 bytes"}
	case r.Lifetime != 0 && (r.Lifetime < MinLifetime || r.Lifetime > MaxLifetime):
		return &Invalid{Param: "expires_in", Reason: "must be between one minute and ten years from now"}
	}
	return nil
}

// owner resolves an id, which is ErrUnknown if it cannot be one.
func (s *Store) owner(ctx context.Context, id string) (string, error) {
	if !isKeyID(id) {
		return "", ErrUnknown
	}
	owner, err := s.rdb.Get(ctx, s.layout.OwnerOf(id)).Result()
	if errors.Is(err, redis.Nil) {
		return "", ErrUnknown
	}
	if err != nil {
		return "", storeError(err)
	}
	return owner, nil
}
