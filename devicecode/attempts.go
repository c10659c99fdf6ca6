package devicecode

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Attempts bounds how often something may be tried, over all gateways. In no
// window of time are there ever more attempts than allowed.
type Attempts struct {
	rdb    redis.UniversalClient
	prefix string // with a hash tag: one script touches several names
}

// Cap allows Limit attempts in any time of length Per. Whose attempts they are
// is said by Name, which must be safe in a name of Redis.
type Cap struct {
	Name  string
	Limit int
	Per   time.Duration
}

// NewAttempts counts under names that start with prefix.
func NewAttempts(rdb redis.UniversalClient, prefix string) *Attempts {
	return &Attempts{rdb: rdb, prefix: prefix}
}

// KEYS: sorted sets. ARGV: the attempt, then limit and milliseconds of each.
// Answers 0, or the place of the cap that is exhausted and how long it stays so.
var tryScript = redis.NewScript(`
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
for i, key in ipairs(KEYS) do
  local limit, per = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now - per)
  if redis.call('ZCARD', key) >= limit then
    local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    return {i, math.max(1, tonumber(first[2]) + per - now)}
  end
end
for i, key in ipairs(KEYS) do
  redis.call('ZADD', key, string.format('%.0f', now), ARGV[1])
  redis.call('PEXPIRE', key, ARGV[2 * i + 1])
end
return {0, 0}
`)

// Try takes one attempt of every cap, or of none. If one is exhausted, wait is
// how long it stays so. Otherwise undo gives the attempt back, once it is known
// that it should not count.
func (a *Attempts) Try(ctx context.Context, caps ...Cap) (undo func(context.Context), wait time.Duration, err error) {
	attempt := rand.Text()
	keys, args := make([]string, len(caps)), []any{attempt}
	for i, c := range caps {
		keys[i] = a.prefix + c.Name
		args = append(args, c.Limit, c.Per.Milliseconds())
	}
	reply, err := tryScript.Run(ctx, a.rdb, keys, args...).Int64Slice()
	if err != nil || len(reply) != 2 {
		return nil, 0, storeError(err)
	}
	if reply[0] != 0 {
		return nil, time.Duration(reply[1]) * time.Millisecond, nil
	}
	return func(ctx context.Context) {
		_, _ = a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range keys {
				p.ZRem(ctx, key, attempt)
			}
			return nil
		})
	}, 0, nil
}

func storeError(err error) error {
	if err == nil {
		return fmt.Errorf("%w: answer of another shape", ErrStore)
	}
	return fmt.Errorf("%w: %w", ErrStore, err)
}
