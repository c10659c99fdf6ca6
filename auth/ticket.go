package auth

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrTicketUsed is the error for a ticket that was redeemed before, was torn
// up, or ran out.
var ErrTicketUsed = errors.New("ticket is used up")

// Ticket names the string that stands for one key to be made for owner.
func (l Layout) Ticket(owner, ticket string) string { return l.Owner(owner) + "ticket:" + ticket }

// redeemTries bounds how often Redeem sends its command again after a broken
// connection. The script recognises a repetition.
const redeemTries = 3

// KEYS: hash, set of ids, ticket. ARGV: as createScript. The ticket goes in
// the step that makes the key.
var redeemScript = redis.NewScript(luaHead + `
local digest = redis.call('HGET', KEYS[1], 'digest')
if digest == ARGV[2] then return answer('ok', KEYS[1]) end
if digest then return answer('taken', KEYS[1]) end
if redis.call('DEL', KEYS[3]) == 0 then return answer('used', KEYS[1]) end
write(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[7], ARGV[8], ARGV[3], ARGV[4], ARGV[5],
  tonumber(ARGV[9]), tonumber(ARGV[6]))
return answer('ok', KEYS[1])
`)

// Promise writes a ticket, for which Redeem makes one key within life. The
// caller chooses its name, at random.
func (s *Store) Promise(ctx context.Context, owner, ticket string, life time.Duration) error {
	if err := CheckOwner(owner); err != nil {
		return err
	}
	if err := s.rdb.Set(ctx, s.layout.Ticket(owner, ticket), "1", life).Err(); err != nil {
		return storeError(err)
	}
	return nil
}

// TearUp takes a promise back. A ticket that is gone already is no error.
func (s *Store) TearUp(ctx context.Context, owner, ticket string) error {
	if err := s.rdb.Del(ctx, s.layout.Ticket(owner, ticket)).Err(); err != nil {
		return storeError(err)
	}
	return nil
}

// Redeem is Create for a ticket: of any number of calls, on any number of
// gateways, one makes a key, and the others get ErrTicketUsed. After ErrStore
// the ticket may or may not be used up, and nobody knows the key.
func (s *Store) Redeem(ctx context.Context, ticket string, r Request) (plaintext string, key Key, err error) {
	if err := s.check(r); err != nil {
		return "", Key{}, err
	}
	d, err := s.announced(ctx, r.Owner, r.Lifetime)
	if err != nil {
		return "", Key{}, err
	}
	names := append(s.names(d), s.layout.Ticket(r.Owner, ticket))
	args := s.args(d, r.Origin, r.Name, r.Plan, r.Lifetime.Milliseconds())
	for range redeemTries {
		key, err = s.run(ctx, redeemScript, d.owner, d.id, names, args...)
		if err == nil || !errors.Is(err, ErrStore) || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		if !errors.Is(err, ErrStore) {
			s.forget(ctx, d)
		}
		return "", Key{}, err
	}
	return d.plaintext, key, nil
}

// forget takes an announcement back, if it can: the key was not made.
func (s *Store) forget(ctx context.Context, d draft) {
	_, _ = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Del(ctx, s.layout.digest(d.digest.Hex()))
		p.Del(ctx, s.layout.OwnerOf(d.id))
		return nil
	})
}
