package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// records are sealed JSON in Redis. A record that we did not write is none.
type records struct {
	rdb   redis.UniversalClient
	seals Seals
}

// get reads a record into value. raw is what swap wants; empty: there is none.
func (r *records) get(ctx context.Context, name string, value any) (raw string, err error) {
	raw, err = r.rdb.Get(ctx, name).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("console store: %w", err)
	}
	if content, genuine := r.seals.Open(name, []byte(raw)); genuine && json.Unmarshal(content, value) == nil {
		return raw, nil
	}
	return "", nil
}

// put writes a record; life 0 is for ever.
func (r *records) put(ctx context.Context, name string, value any, life time.Duration) error {
	sealed, err := r.sealed(name, value)
	if err != nil {
		return err
	}
	if err := r.rdb.Set(ctx, name, sealed, life).Err(); err != nil {
		return fmt.Errorf("console store: %w", err)
	}
	return nil
}

// KEYS: record. ARGV: old, new.
var swapScript = redis.NewScript(`
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
`)

// swap writes a record, which lasts for ever, unless another was written since
// raw was read. An empty raw is for a record that does not exist.
func (r *records) swap(ctx context.Context, name, raw string, value any) (bool, error) {
	sealed, err := r.sealed(name, value)
	if err != nil {
		return false, err
	}
	done, err := swapScript.Run(ctx, r.rdb, []string{name}, raw, sealed).Int()
	if err != nil {
		return false, fmt.Errorf("console store: %w", err)
	}
	return done == 1, nil
}

func (r *records) remove(ctx context.Context, name string) error {
	if err := r.rdb.Del(ctx, name).Err(); err != nil {
		return fmt.Errorf("console store: %w", err)
	}
	return nil
}

func (r *records) sealed(name string, value any) ([]byte, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("console record: %w", err)
	}
	return r.seals.Seal(name, content), nil
}
