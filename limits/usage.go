package limits

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"
)

// usageKept is how long the usage record is kept.
const usageKept = 35 * 24 * time.Hour

// usageKey is one row of the usage record.
type usageKey struct {
	owner, keyID, model string
	hour                int64 // hours since 1970
}

// usageCounts is what a row counts. Times are in microseconds.
type usageCounts struct {
	requests, refused, prompt, completion, ttft, firsts int64
}

// usageFields are the names under which the counts lie in Redis, behind the
// key's id and the model.
var usageFields = [...]string{"requests", "refused", "prompt", "completion", "ttft", "firsts"}

func (c *usageCounts) list() [len(usageFields)]*int64 {
	return [...]*int64{&c.requests, &c.refused, &c.prompt, &c.completion, &c.ttft, &c.firsts}
}

// usageBook gathers what this gateway has to add to the usage record. What is
// on its way to Redis is kept, under its number, until Redis has answered.
type usageBook struct {
	mu   sync.Mutex
	rows map[usageKey]*usageCounts

	// Only the keeper uses these.
	number int64
	sent   []*addition
}

// addition is one run of usage.lua: what one owner used.
type addition struct {
	owner  string
	number int64
	hours  []int64
	args   []any // from ARGV[3] on
}

func (b *usageBook) add(key usageKey, n usageCounts) {
	b.mu.Lock()
	defer b.mu.Unlock()
	row := b.rows[key]
	if row == nil {
		if b.rows == nil {
			b.rows = map[usageKey]*usageCounts{}
		}
		row = &usageCounts{}
		b.rows[key] = row
	}
	amounts := n.list()
	for i, count := range row.list() {
		*count += *amounts[i]
	}
}

func (l *Limiter) usageRow(owner, keyID, model string) usageKey {
	return usageKey{owner, keyID, model, l.clock.now() / time.Hour.Microseconds()}
}

// flushUsage writes what was gathered. The next lot is only made up once this
// one has arrived, so that numbers arrive in their order.
func (l *Limiter) flushUsage(ctx context.Context) {
	b := &l.usage
	if len(b.sent) == 0 {
		b.makeUp()
	}
	for i, add := range b.sent {
		if err := l.write(ctx, add); err != nil {
			b.sent = b.sent[i:]
			return
		}
	}
	b.sent = nil
}

// makeUp turns what was gathered into one addition per owner.
func (b *usageBook) makeUp() {
	b.mu.Lock()
	rows := b.rows
	b.rows = nil
	b.mu.Unlock()
	b.number++
	owners := map[string]*addition{}
	for key, counts := range rows {
		add := owners[key.owner]
		if add == nil {
			add = &addition{owner: key.owner, number: b.number}
			owners[key.owner] = add
			b.sent = append(b.sent, add)
		}
		add.add(key, counts)
	}
}

func (a *addition) add(key usageKey, counts *usageCounts) {
	at := 0
	for at < len(a.hours) && a.hours[at] != key.hour {
		at++
	}
	if at == len(a.hours) {
		a.hours = append(a.hours, key.hour)
	}
	for i, count := range counts.list() {
		if *count != 0 {
			a.args = append(a.args, at+2, key.keyID+" "+key.model+" "+usageFields[i], *count)
		}
	}
}

// write sends one addition, and notes the owner in the index of each hour; the
// index lies in a slot of its own and is written first, so that nothing is
// recorded that cannot be found.
func (l *Limiter) write(ctx context.Context, a *addition) error {
	err := l.ask(ctx, func(ctx context.Context) error {
		pipe := l.opt.Redis.Pipeline()
		for _, hour := range a.hours {
			pipe.SAdd(ctx, l.usageIndex(hour), a.owner)
			pipe.Expire(ctx, l.usageIndex(hour), usageKept)
		}
		return execute(ctx, pipe)
	})
	if err != nil {
		return err
	}
	args := []any{l.layout.Owner(a.owner) + "usage-from:" + l.id}
	for _, hour := range a.hours {
		args = append(args, l.usageName(a.owner, hour))
	}
	args = append(args, a.number, int64(usageKept.Seconds()))
	_, err = l.runScript(ctx, l.scripts.usage, 1+len(a.hours), append(args, a.args...)...)
	return err
}

func (l *Limiter) usageIndex(hour int64) string {
	return l.opt.Service + ":usage:" + strconv.FormatInt(hour, 10)
}

func (l *Limiter) usageName(owner string, hour int64) string {
	return l.layout.Owner(owner) + "usage:" + strconv.FormatInt(hour, 10)
}

// parseUsageField takes apart "<key id> <model> <count>".
func parseUsageField(field string) (keyID, model, count string, ok bool) {
	keyID, rest, ok1 := strings.Cut(field, " ")
	model, count, ok2 := strings.Cut(rest, " ")
	return keyID, model, count, ok1 && ok2
}
