package console

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Event is one line of the audit log. It holds nothing secret.
type Event struct {
	ID      string // the log's own, which orders events
	Time    time.Time
	What    string // "key created", "signed in", ...
	Who     string // who did it
	Owner   string // whose key or account it is
	KeyID   string
	Address string
	Detail  string
}

// Audit is the log of events, in Redis.
type Audit struct {
	rdb  redis.UniversalClient
	name string
	most int64
}

// NewAudit keeps the newest events of a service, most of them.
func NewAudit(rdb redis.UniversalClient, service string, most int) *Audit {
	return &Audit{rdb: rdb, name: service + ":console:audit", most: int64(most)}
}

// Record adds an event, and drops the oldest beyond the bound.
func (a *Audit) Record(ctx context.Context, e Event) error {
	err := a.rdb.XAdd(ctx, &redis.XAddArgs{
		Stream: a.name, MaxLen: a.most,
		Values: []any{"what", e.What, "who", e.Who, "owner", e.Owner, "key", e.KeyID, "address", e.Address, "detail", e.Detail},
	}).Err()
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	return nil
}

const auditPage = 500

// Events yields events from the newest on, or from the one before the event
// whose id is given. An error is the last thing yielded.
func (a *Audit) Events(ctx context.Context, before string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		end := "+"
		if isEventID(before) {
			end = "(" + before
		}
		for {
			page, err := a.rdb.XRevRangeN(ctx, a.name, end, "-", auditPage).Result()
			if err != nil {
				yield(Event{}, fmt.Errorf("audit log: %w", err))
				return
			}
			for _, message := range page {
				if !yield(parseEvent(message), nil) {
					return
				}
			}
			if len(page) < auditPage {
				return
			}
			end = "(" + page[len(page)-1].ID
		}
	}
}

func parseEvent(m redis.XMessage) Event {
	text := func(field string) string { value, _ := m.Values[field].(string); return value }
	ms, _, _ := strings.Cut(m.ID, "-")
	at, _ := strconv.ParseInt(ms, 10, 64)
	return Event{
		ID: m.ID, Time: time.UnixMilli(at).UTC(), What: text("what"), Who: text("who"), Owner: text("owner"),
		KeyID: text("key"), Address: text("address"), Detail: text("detail"),
	}
}

func isEventID(id string) bool {
	ms, n, found := strings.Cut(id, "-")
	_, err := strconv.ParseUint(ms, 10, 64)
	_, err2 := strconv.ParseUint(n, 10, 64)
	return found && err == nil && err2 == nil
}
