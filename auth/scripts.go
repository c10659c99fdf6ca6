package auth

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Every script touches one owner's names only and takes the time from Redis.
// It answers with that time, a verdict, and the hash that it read or wrote.
// A repeated create or rotate (a client repeats a command after a broken
// connection) is recognised by the new key's digest and changes nothing.
const luaHead = `
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local function ms(n) return string.format('%.0f', n) end
local function answer(verdict, key)
  return {ms(now), verdict, redis.call('HGETALL', key)}
end
local function number(key, field)
  return tonumber(redis.call('HGET', key, field) or '0') or 0
end
local function write(key, set, id, digest, name, plan, last4, pepper, origin, lifetime, retention)
  redis.call('HSET', key, 'name', name, 'last4', last4, 'plan', plan, 'digest', digest,
    'pepper', pepper, 'created', ms(now), 'origin', origin)
  if lifetime > 0 then
    redis.call('HSET', key, 'expires', ms(now + lifetime), 'lifetime', ms(lifetime))
    redis.call('PEXPIREAT', key, ms(now + lifetime + retention))
  end
  redis.call('SADD', set, id)
end
`

// KEYS: hash, set of ids. ARGV: id, digest, last4, pepper, origin, retention,
// name, plan, lifetime.
var createScript = redis.NewScript(luaHead + `
local digest = redis.call('HGET', KEYS[1], 'digest')
if not digest then
  write(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[7], ARGV[8], ARGV[3], ARGV[4], ARGV[5],
    tonumber(ARGV[9]), tonumber(ARGV[6]))
elseif digest ~= ARGV[2] then
  return answer('taken', KEYS[1])
end
return answer('ok', KEYS[1])
`)

// KEYS: new hash, set of ids, old hash. ARGV: as createScript up to retention,
// then the overlap.
var rotateScript = redis.NewScript(luaHead + `
local digest = redis.call('HGET', KEYS[1], 'digest')
if digest == ARGV[2] then return answer('ok', KEYS[1]) end
if digest then return answer('taken', KEYS[1]) end
local old = redis.call('HMGET', KEYS[3], 'digest', 'name', 'plan')
if not old[1] then return answer('unknown', KEYS[3]) end
if number(KEYS[3], 'revoked') > 0 then return answer('revoked', KEYS[3]) end
local expires = number(KEYS[3], 'expires')
if expires > 0 and expires <= now then return answer('expired', KEYS[3]) end
local last = now + tonumber(ARGV[7])
if expires == 0 or last < expires then
  redis.call('HSET', KEYS[3], 'expires', ms(last))
end
write(KEYS[1], KEYS[2], ARGV[1], ARGV[2], old[2], old[3], ARGV[3], ARGV[4], ARGV[5],
  number(KEYS[3], 'lifetime'), tonumber(ARGV[6]))
return answer('ok', KEYS[1])
`)

// KEYS: hash.
var revokeScript = redis.NewScript(luaHead + `
if redis.call('HEXISTS', KEYS[1], 'digest') == 0 then return answer('unknown', KEYS[1]) end
if number(KEYS[1], 'revoked') == 0 then redis.call('HSET', KEYS[1], 'revoked', ms(now)) end
return answer('ok', KEYS[1])
`)

// KEYS: hash. A hash that has been forgotten must not come back with one field.
const usedScript = `if redis.call('EXISTS', KEYS[1]) == 1 then
  local clock = redis.call('TIME')
  redis.call('HSET', KEYS[1], 'used', string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000)))
end
return 1`

// run runs a script and reads its answer as the record of owner's key id.
func (s *Store) run(ctx context.Context, script *redis.Script, owner, id string, keys []string, args ...any) (Key, error) {
	reply, err := script.Run(ctx, s.rdb, keys, args...).Slice()
	if err != nil {
		return Key{}, storeError(err)
	}
	now, verdict, hash, err := parseAnswer(reply)
	if err != nil {
		return Key{}, storeError(err)
	}
	switch verdict {
	case "ok":
		return parseStored(owner, id, hash, now)
	case "unknown":
		return Key{}, ErrUnknown
	case "revoked":
		return Key{}, ErrRevoked
	case "expired":
		return Key{}, ErrExpired
	case "used":
		return Key{}, ErrTicketUsed
	}
	return Key{}, storeError(fmt.Errorf("key id %s is taken", id))
}

func parseAnswer(reply []any) (now time.Time, verdict string, hash map[string]string, err error) {
	bad := errors.New("script gave an answer of another shape")
	if len(reply) != 3 {
		return now, "", nil, bad
	}
	clock, isText := reply[0].(string)
	verdict, isVerdict := reply[1].(string)
	fields, isList := reply[2].([]any)
	ms, notNumber := strconv.ParseInt(clock, 10, 64)
	if !isText || !isVerdict || !isList || notNumber != nil {
		return now, "", nil, bad
	}
	hash = make(map[string]string, len(fields)/2)
	for i := 0; i+1 < len(fields); i += 2 {
		hash[fmt.Sprint(fields[i])] = fmt.Sprint(fields[i+1])
	}
	return time.UnixMilli(ms), verdict, hash, nil
}

func parseStored(owner, id string, hash map[string]string, now time.Time) (Key, error) {
	key, err := parseKey(owner, id, hash, now)
	if err != nil {
		return Key{}, storeError(err)
	}
	return key, nil
}

// storeError marks an error as ours, so that nobody takes it for the key's.
func storeError(err error) error { return fmt.Errorf("%w: %w", ErrStore, err) }
