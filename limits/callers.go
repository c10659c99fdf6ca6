package limits

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"mete/auth"
)

// record is a key as it was last seen. It is immutable but for seen; a change
// of plan makes a new one.
//
// At first sight of a key only its owner and id are known, from its digest.
// The record then is a guess, with the plan that was seen last: the rest is
// read together with the first admission, which tells whether the plan is so.
type record struct {
	guess  bool
	caller auth.Caller
	digest auth.Digest
	key    any          // name of the key's hash in Redis, boxed
	seen   atomic.Int64 // when Redis last said that the key works, by Redis's clock

	// Until when the record stands for the store, which has lost the key.
	trusted atomic.Int64
}

// keyState turns what the admission script found out about a key into an
// error, or into the record to go on with; asked is the plan it was asked for.
func (l *Limiter) keyState(ctx context.Context, rec *record, asked string, verdict int64) (*record, error) {
	switch verdict {
	case replyRevoked:
		return nil, auth.ErrRevoked
	case replyExpired:
		return nil, auth.ErrExpired
	case replyPlan:
		if known, ok := l.callers.get(rec.digest); ok && known.caller.Plan != asked {
			return known, nil // it has been read in between
		}
		return l.read(ctx, rec.digest, rec.caller.Owner, rec.caller.KeyID)
	}
	err := l.gone(ctx, rec.digest)
	if errors.Is(err, auth.ErrUnknown) {
		l.callers.drop(rec.digest)
		return nil, err
	}
	// A store that was lost is as good as one that cannot be asked, except
	// that the limits still can be. Not every request has to find out anew.
	now := l.clock.now()
	if known := l.known(rec, now); known != nil {
		return nil, known
	}
	rec.trusted.Store(now + time.Second.Microseconds())
	return rec, nil
}

// identify finds the record of a key: in the configuration, among those that
// are remembered, or in the store. It keeps nothing of key.
func (l *Limiter) identify(ctx context.Context, key []byte) (*record, error) {
	if err := l.format.Check(key); err != nil {
		return nil, err
	}
	if static := l.setup.Load().static; static.Len() > 0 {
		hash := auth.Hash(key)
		if caller, ok := static.Find(hash); ok {
			return l.staticRecord(hash, caller), nil
		}
	}
	if l.opt.Peppers == nil {
		return nil, auth.ErrUnknown
	}
	for _, digest := range l.opt.Peppers.Digests(key) {
		if rec, ok := l.callers.get(digest); ok {
			return rec, nil
		}
	}
	return l.lookUp(ctx, key)
}

func (l *Limiter) staticRecord(hash auth.Digest, caller auth.Caller) *record {
	rec, ok := l.callers.get(hash)
	if !ok || rec.caller != caller {
		rec = &record{caller: caller, digest: hash, key: l.layout.Key(caller.Owner, caller.KeyID)}
		l.callers.put(hash, rec)
	}
	return rec
}

// lookUp asks the store whose key this is.
func (l *Limiter) lookUp(ctx context.Context, key []byte) (*record, error) {
	if !l.up.Load() {
		return nil, auth.ErrStore
	}
	digest, id, owner, err := l.find(ctx, key)
	if err != nil {
		return nil, err
	}
	plan := l.guess.Load()
	if plan == nil || l.setup.Load().policies[*plan] == nil {
		return l.read(ctx, digest, owner, id)
	}
	return &record{guess: true, digest: digest, key: l.layout.Key(owner, id), caller: auth.Caller{
		KeyID: id, Owner: owner, Plan: *plan,
	}}, nil
}

// find reads who the digest of a key stands for, under every pepper, and the
// marker, in one round trip. A digest that is not there is ErrUnknown only if
// the store still is the one that it was.
func (l *Limiter) find(ctx context.Context, key []byte) (digest auth.Digest, id, owner string, err error) {
	var digests []auth.Digest
	var found []*redis.StringCmd
	var marker *redis.StringCmd
	err = l.ask(ctx, func(ctx context.Context) error {
		digests, found = digests[:0], found[:0]
		pipe := l.opt.Redis.Pipeline()
		for _, d := range l.opt.Peppers.Digests(key) {
			digests, found = append(digests, d), append(found, pipe.Get(ctx, l.layout.Digest(d)))
		}
		marker = pipe.Get(ctx, l.layout.Marker())
		return execute(ctx, pipe)
	})
	if err != nil {
		return digest, "", "", err
	}
	for i, cmd := range found {
		if id, owner, ok := auth.SplitDigestValue(cmd.Val()); ok {
			return digests[i], id, owner, nil
		}
	}
	return digest, "", "", l.unknown(marker)
}

// unknown tells an unknown key from a store that has lost its data.
func (l *Limiter) unknown(marker *redis.StringCmd) error {
	seen, now := l.marker.Load(), marker.Val()
	if *seen == "" && now != "" {
		l.marker.CompareAndSwap(seen, &now)
		return auth.ErrUnknown
	}
	if now != "" && now == *seen {
		return auth.ErrUnknown
	}
	l.storeLost()
	return fmt.Errorf("%w: it has lost its data", auth.ErrStore)
}

// recordFields are those of a key's hash that a record holds.
var recordFields = []string{auth.FieldPlan, auth.FieldName, auth.FieldLast4, auth.FieldExpires}

// read reads the hash of a key. What it says about the key's state is left to
// the admission script.
func (l *Limiter) read(ctx context.Context, digest auth.Digest, owner, id string) (*record, error) {
	var fields []any
	err := l.ask(ctx, func(ctx context.Context) (err error) {
		fields, err = l.opt.Redis.HMGet(ctx, l.layout.Key(owner, id), recordFields...).Result()
		return err
	})
	if err != nil {
		return nil, err
	}
	if fields[0] == nil {
		return nil, l.gone(ctx, digest)
	}
	return l.remember(digest, owner, id, fields), nil
}

// remember makes a record out of recordFields and keeps it.
func (l *Limiter) remember(digest auth.Digest, owner, id string, fields []any) *record {
	text := func(i int) string { s, _ := fields[i].(string); return s }
	rec := &record{digest: digest, key: l.layout.Key(owner, id), caller: auth.Caller{
		KeyID: id, Owner: owner, Plan: text(0), Name: text(1), Last4: text(2),
	}}
	if ms, err := strconv.ParseInt(text(3), 10, 64); err == nil && ms > 0 {
		rec.caller.Expires = time.UnixMilli(ms).UTC()
	}
	l.callers.put(digest, rec)
	l.guess.Store(&rec.caller.Plan)
	return rec
}

// gone says what it means that a digest is known and the key's hash is not
// there: a key that was forgotten takes its digest along, so if the digest is
// still there, the owner's records were lost.
func (l *Limiter) gone(ctx context.Context, digest auth.Digest) error {
	var found, marker *redis.StringCmd
	err := l.ask(ctx, func(ctx context.Context) error {
		pipe := l.opt.Redis.Pipeline()
		found, marker = pipe.Get(ctx, l.layout.Digest(digest)), pipe.Get(ctx, l.layout.Marker())
		return execute(ctx, pipe)
	})
	if err != nil {
		return err
	}
	if found.Val() != "" {
		l.storeLost()
		return fmt.Errorf("%w: it has lost a key", auth.ErrStore)
	}
	return l.unknown(marker)
}

// storeLost raises the alarm, at most once a minute.
func (l *Limiter) storeLost() {
	now, next := l.clock.now(), l.alarmed.Load()
	if now >= next && l.alarmed.CompareAndSwap(next, now+time.Minute.Microseconds()) {
		l.opt.Alarm(StoreLost, nil)
	}
}

// ask runs a call that is not an admission, under the breaker and in time. Its
// error is always one of ours. That a caller went away is no failure of Redis,
// so the call does not end with ctx.
func (l *Limiter) ask(ctx context.Context, call func(context.Context) error) error {
	_, err := l.line.breaker.Execute(func() (struct{}, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.opt.Timeout)
		defer cancel()
		sent := time.Now()
		err := call(ctx)
		l.opt.Called(time.Since(sent), err)
		return struct{}{}, err
	})
	if err != nil {
		l.nudge()
		return fmt.Errorf("%w: %w", auth.ErrStore, err)
	}
	return nil
}

// execute runs a pipeline in which an absent value is no error.
func execute(ctx context.Context, pipe redis.Pipeliner) error {
	cmds, err := pipe.Exec(ctx)
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	return nil
}
