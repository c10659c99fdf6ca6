package devicecode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrStore says that Redis could not be asked, or that it said nonsense.
var ErrStore = errors.New("store of device codes cannot say")

var (
	errUnknown = errors.New("code is unknown")
	errFull    = errors.New("too many codes are pending")
	errTaken   = errors.New("user code is taken")
)

// afterlife is how long the record of a code outlives it, so that late polls
// hear what became of it.
const afterlife = time.Hour

// store keeps machines in Redis. Every change is a compare and swap: whoever
// read an older record starts over.
type store struct {
	rdb    redis.UniversalClient
	prefix string
	seal   func(name string, content []byte) []byte
	open   func(name string, sealed []byte) ([]byte, bool)
}

// entry is a machine as it lies in the store.
type entry struct {
	Machine
	digest string
	sealed string // what the store holds
	now    time.Time
}

func (s *store) code(digest string) string   { return s.prefix + "code:" + digest }
func (s *store) user(userCode string) string { return s.prefix + "user:" + userCode }
func (s *store) pending() string             { return s.prefix + "pending" }

func (s *store) now(ctx context.Context) (time.Time, error) {
	now, _, err := s.get(ctx, s.pending()+":none")
	return now, err
}

// KEYS: record, user code, undecided codes. ARGV: digest, record, life,
// afterlife, most undecided codes.
var startScript = redis.NewScript(`
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local life = tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
if redis.call('ZCARD', KEYS[3]) >= tonumber(ARGV[5]) then return 'full' end
if redis.call('EXISTS', KEYS[2]) == 1 then return 'taken' end
redis.call('SET', KEYS[2], ARGV[1], 'PX', life)
redis.call('SET', KEYS[1], ARGV[2], 'PX', life + tonumber(ARGV[4]))
redis.call('ZADD', KEYS[3], string.format('%.0f', now + life), ARGV[1])
redis.call('PEXPIRE', KEYS[3], life)
return 'ok'
`)

func (s *store) add(ctx context.Context, digest, userCode string, m Machine, most int) error {
	record, err := s.marshal(digest, m)
	if err != nil {
		return err
	}
	keys := []string{s.code(digest), s.user(userCode), s.pending()}
	life := m.Expires.Sub(m.Asked.Started)
	reply, err := startScript.Run(ctx, s.rdb, keys, digest, record, life.Milliseconds(), afterlife.Milliseconds(), most).Text()
	switch {
	case err != nil:
		return storeError(err)
	case reply == "full":
		return errFull
	case reply == "taken":
		return errTaken
	}
	return nil
}

// KEYS: any name. Answers the time and what lies under the name.
var getScript = redis.NewScript(`
local clock = redis.call('TIME')
return {string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000)), redis.call('GET', KEYS[1]) or ''}
`)

func (s *store) get(ctx context.Context, name string) (now time.Time, value string, err error) {
	reply, err := getScript.Run(ctx, s.rdb, []string{name}).StringSlice()
	if err != nil || len(reply) != 2 {
		return now, "", storeError(err)
	}
	ms, err := strconv.ParseInt(reply[0], 10, 64)
	if err != nil {
		return now, "", storeError(err)
	}
	return time.UnixMilli(ms).UTC(), reply[1], nil
}

// byDigest returns errUnknown for a record that is not there or not ours.
func (s *store) byDigest(ctx context.Context, digest string) (entry, error) {
	now, sealed, err := s.get(ctx, s.code(digest))
	if err != nil {
		return entry{}, err
	}
	content, genuine := s.open(s.code(digest), []byte(sealed))
	e := entry{digest: digest, sealed: sealed, now: now}
	if !genuine || json.Unmarshal(content, &e.Machine) != nil {
		return entry{}, errUnknown
	}
	return e, nil
}

// byUserCode asks Redis twice whether or not there is such a code, so that the
// time tells nothing.
func (s *store) byUserCode(ctx context.Context, userCode string) (entry, error) {
	_, digest, err := s.get(ctx, s.user(userCode))
	if err != nil {
		return entry{}, err
	}
	return s.byDigest(ctx, digest)
}

// KEYS: record, undecided codes. ARGV: old record, new record, digest, whether
// it is still undecided.
var swapScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
if ARGV[4] == '0' then redis.call('ZREM', KEYS[2], ARGV[3]) end
return 1
`)

// swap writes an entry that was changed after it was read. It reports whether
// nobody else changed it in between.
func (s *store) swap(ctx context.Context, e entry) (bool, error) {
	record, err := s.marshal(e.digest, e.Machine)
	if err != nil {
		return false, err
	}
	undecided := "0"
	if e.State == Pending {
		undecided = "1"
	}
	done, err := swapScript.Run(ctx, s.rdb, []string{s.code(e.digest), s.pending()}, e.sealed, record, e.digest, undecided).Int()
	if err != nil {
		return false, storeError(err)
	}
	return done == 1, nil
}

func (s *store) marshal(digest string, m Machine) ([]byte, error) {
	content, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("record of a code: %w", err)
	}
	return s.seal(s.code(digest), content), nil
}
