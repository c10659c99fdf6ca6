package auth

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// KEYS: hash. ARGV: field, value.
var amendScript = redis.NewScript(luaHead + `
if redis.call('HEXISTS', KEYS[1], 'digest') == 0 then return answer('unknown', KEYS[1]) end
if number(KEYS[1], 'revoked') > 0 then return answer('revoked', KEYS[1]) end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return answer('ok', KEYS[1])
`)

// Rename gives a key another name. It returns an *Invalid for a bad name, and
// ErrUnknown or ErrRevoked for a key that is not there any more.
func (s *Store) Rename(ctx context.Context, id, name string) (Key, error) {
	if err := s.format.CheckName(name); err != nil {
		return Key{}, err
	}
	return s.amend(ctx, id, FieldName, name)
}

// SetPlan puts a key under another plan, from its next request on. Whether
// there is such a plan is the caller's to know. Errors are as of Rename.
func (s *Store) SetPlan(ctx context.Context, id, plan string) (Key, error) {
	if plan == "" || len(plan) > MaxNameBytes {
		return Key{}, &Invalid{Param: "plan", Reason: "must have 1 to 64 bytes"}
	}
	return s.amend(ctx, id, FieldPlan, plan)
}

func (s *Store) amend(ctx context.Context, id, field, value string) (Key, error) {
	owner, err := s.owner(ctx, id)
	if err != nil {
		return Key{}, err
	}
	return s.run(ctx, amendScript, owner, id, []string{s.layout.Key(owner, id)}, field, value)
}

// CheckName is CheckName for a key of this format: nobody may write a key into
// the name of one.
func (f Format) CheckName(name string) error {
	if strings.Contains(name, f.prefix) {
		return &Invalid{Param: "name", Reason: "looks like a key"}
	}
	return CheckName(name)
}
