package auth

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// draft is a key that the store does not have yet.
type draft struct {
	id, owner string
	plaintext string
	digest    Digest
}

// announced makes a draft and announces it.
func (s *Store) announced(ctx context.Context, owner string, lifetime time.Duration) (draft, error) {
	d, err := s.draft(owner)
	if err != nil {
		return draft{}, err
	}
	return d, s.announce(ctx, d, lifetime)
}

func (s *Store) draft(owner string) (draft, error) {
	id, err := newKeyID()
	if err != nil {
		return draft{}, err
	}
	plaintext, err := s.format.New()
	if err != nil {
		return draft{}, err
	}
	return draft{id: id, owner: owner, plaintext: plaintext, digest: s.peppers.Digest([]byte(plaintext))}, nil
}

// announce writes all that lies outside the owner's slot. It must come before
// the hash: what is announced does not work yet, but a hash without digest and
// id could be neither used nor revoked.
func (s *Store) announce(ctx context.Context, d draft, lifetime time.Duration) error {
	var ttl time.Duration
	if lifetime > 0 {
		ttl = lifetime + Retention
	}
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, s.layout.OwnerOf(d.id), d.owner, ttl)
		p.SAdd(ctx, s.layout.Owners(), d.owner)
		p.Set(ctx, s.layout.Digest(d.digest), JoinDigestValue(d.id, d.owner), ttl)
		return nil
	})
	if err != nil {
		return storeError(err)
	}
	return nil
}

// names are the first KEYS of the scripts that make a key.
func (s *Store) names(d draft) []string {
	return []string{s.layout.Key(d.owner, d.id), s.layout.KeyIDs(d.owner)}
}

// args are the first ARGV of the scripts that make a key, and the rest.
func (s *Store) args(d draft, origin Origin, rest ...any) []any {
	last4 := d.plaintext[KeyBytes-4:]
	return append([]any{
		d.id, d.digest.Hex(), last4, s.peppers.Version(), string(origin), Retention.Milliseconds(),
	}, rest...)
}

// retire lets the store forget a key that is dead, or will be, Retention after
// its end. The hash goes last: readers take a digest without hash for lost
// data. Errors are dropped on purpose: the key's end stands already, and what
// is not forgotten merely stays listed.
func (s *Store) retire(ctx context.Context, k Key) {
	at := k.end().Add(Retention)
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.PExpireAt(ctx, s.layout.digest(k.digest), at)
		p.PExpireAt(ctx, s.layout.OwnerOf(k.ID), at)
		return nil
	})
	if err == nil {
		s.rdb.PExpireAt(ctx, s.layout.Key(k.Owner, k.ID), at)
	}
}
