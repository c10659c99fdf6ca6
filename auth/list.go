package auth

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// pageSize is how many names one round trip asks for.
const pageSize = 500

// ref is where the record of a key lies.
type ref struct{ owner, id string }

// place is where the scan of an owner's ids stands.
type place struct {
	owner  string
	cursor uint64
}

// Keys yields the records of all keys of owner, or of everybody's if owner is
// empty, dead keys included, in no order. It reads page by page and keeps no
// more than the names that it has seen. A key that exists all the while comes
// exactly once; one that is made meanwhile may come. An error is the last thing
// yielded.
func (s *Store) Keys(ctx context.Context, owner string) iter.Seq2[Key, error] {
	return func(yield func(Key, error) bool) {
		for owners, err := range s.ownerPages(ctx, owner) {
			if err != nil {
				yield(Key{}, storeError(err))
				return
			}
			if !s.yieldKeys(ctx, owners, yield) {
				return
			}
		}
	}
}

// yieldKeys reports whether to go on: neither an error nor the caller ended it.
func (s *Store) yieldKeys(ctx context.Context, owners []place, yield func(Key, error) bool) bool {
	seen := map[string]struct{}{} // a scan may show an id twice while its set grows
	for len(owners) > 0 {
		refs, rest, err := s.scan(ctx, owners, seen)
		if err != nil {
			yield(Key{}, storeError(err))
			return false
		}
		for page := range slices.Chunk(refs, pageSize) {
			if !s.yieldPage(ctx, page, yield) {
				return false
			}
		}
		owners = rest
	}
	return true
}

func (s *Store) yieldPage(ctx context.Context, page []ref, yield func(Key, error) bool) bool {
	keys, err := s.read(ctx, page)
	if err != nil {
		yield(Key{}, err)
		return false
	}
	for _, key := range keys {
		if !yield(key, nil) {
			return false
		}
	}
	return true
}

// ownerPages yields every owner once.
func (s *Store) ownerPages(ctx context.Context, owner string) iter.Seq2[[]place, error] {
	return func(yield func([]place, error) bool) {
		if owner != "" {
			yield([]place{{owner: owner}}, nil)
			return
		}
		seen, cursor := map[string]struct{}{}, uint64(0)
		for {
			names, next, err := s.rdb.SScan(ctx, s.layout.Owners(), cursor, "", pageSize).Result()
			var page []place
			for _, name := range unseen(seen, names) {
				page = append(page, place{owner: name})
			}
			if !yield(page, err) || err != nil || next == 0 {
				return
			}
			cursor = next
		}
	}
}

// scan reads the next ids of several owners in one round trip and says which
// owners have more.
func (s *Store) scan(ctx context.Context, owners []place, seen map[string]struct{}) ([]ref, []place, error) {
	scans := make([]*redis.ScanCmd, len(owners))
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, o := range owners {
			scans[i] = p.SScan(ctx, s.layout.KeyIDs(o.owner), o.cursor, "", pageSize)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	var refs []ref
	var rest []place
	for i, o := range owners {
		ids, next := scans[i].Val()
		for _, id := range unseen(seen, ids) {
			refs = append(refs, ref{owner: o.owner, id: id})
		}
		if next != 0 {
			rest = append(rest, place{owner: o.owner, cursor: next})
		}
	}
	return refs, rest, nil
}

// read fetches records in one round trip. Ids whose records the store has
// forgotten are left out, and taken from the owner's set: ids do not come back.
func (s *Store) read(ctx context.Context, refs []ref) ([]Key, error) {
	var clock *redis.TimeCmd
	hashes := make([]*redis.MapStringStringCmd, len(refs))
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		clock = p.Time(ctx)
		for i, r := range refs {
			hashes[i] = p.HGetAll(ctx, s.layout.Key(r.owner, r.id))
		}
		return nil
	})
	if err != nil {
		return nil, storeError(err)
	}
	return s.parse(ctx, refs, hashes, clock.Val())
}

func (s *Store) parse(ctx context.Context, refs []ref, hashes []*redis.MapStringStringCmd, now time.Time) ([]Key, error) {
	keys := make([]Key, 0, len(refs))
	for i, r := range refs {
		hash := hashes[i].Val()
		if len(hash) == 0 {
			s.rdb.SRem(ctx, s.layout.KeyIDs(r.owner), r.id) // tidying; the next list tries again
			continue
		}
		key, err := parseStored(r.owner, r.id, hash, now)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// unseen returns the names that are not in seen and adds them.
func unseen(seen map[string]struct{}, names []string) []string {
	fresh := names[:0]
	for _, name := range names {
		if _, ok := seen[name]; !ok {
			seen[name] = struct{}{}
			fresh = append(fresh, name)
		}
	}
	return fresh
}
