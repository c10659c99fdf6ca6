package auth

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// useInterval is how often last uses are written, and so how exact they are.
const useInterval = time.Minute

// Uses collects which keys were used and writes that to the store once a
// minute, away from the request path.
type Uses struct {
	store *Store
	mu    sync.Mutex
	seen  map[string]string // id to owner
}

// NewUses returns a collector that writes to store while Run runs.
func NewUses(store *Store) *Uses {
	return &Uses{store: store, seen: map[string]string{}}
}

// Saw notes that a key was used. It does not block on the store, and allocates
// only for the first use in a minute.
func (u *Uses) Saw(owner, id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, ok := u.seen[id]; !ok {
		u.seen[id] = owner
	}
}

// Run writes once a minute until ctx ends, then once more. Uses that cannot be
// written are given to report, which may be nil, and dropped.
func (u *Uses) Run(ctx context.Context, report func(error)) {
	ticker := time.NewTicker(useInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			u.flush(ctx, report)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			u.flush(last, report)
			return
		}
	}
}

func (u *Uses) flush(ctx context.Context, report func(error)) {
	if err := u.Flush(ctx); err != nil && report != nil {
		report(err)
	}
}

// Flush writes what was collected since the last time.
func (u *Uses) Flush(ctx context.Context) error {
	u.mu.Lock()
	seen := u.seen
	u.seen = make(map[string]string, len(seen))
	u.mu.Unlock()

	names := make([]string, 0, pageSize)
	for id, owner := range seen {
		if names = append(names, u.store.layout.Key(owner, id)); len(names) == pageSize {
			if err := u.write(ctx, names); err != nil {
				return err
			}
			names = names[:0]
		}
	}
	return u.write(ctx, names)
}

// write sends the script itself each time: in a pipeline nobody could answer
// to NOSCRIPT, and it is shorter than its hash would save.
func (u *Uses) write(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	_, err := u.store.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, name := range names {
			p.Eval(ctx, usedScript, []string{name})
		}
		return nil
	})
	if err != nil {
		return storeError(err)
	}
	return nil
}
