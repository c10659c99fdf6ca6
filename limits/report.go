package limits

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// UsageFilter says which rows of the usage record are wanted; what is empty
// leaves nothing out.
type UsageFilter struct {
	Owner, KeyID, Model string
	Since, Until        time.Time // whole hours that overlap; default: the last 24 hours
}

// UsageRow is what one key used of one model in one hour.
type UsageRow struct {
	Hour             time.Time     `json:"hour"`
	Owner            string        `json:"owner"`
	KeyID            string        `json:"key"`
	Model            string        `json:"model"` // empty: refused before the model was known
	Requests         int64         `json:"requests"`
	Refused          int64         `json:"refused"`
	PromptTokens     int64         `json:"prompt_tokens"`
	CompletionTokens int64         `json:"completion_tokens"`
	TTFT             time.Duration `json:"ttft_ns"`      // sum of the times to the first token
	FirstTokens      int64         `json:"first_tokens"` // of how many answers
}

// Usage reads the usage record, ordered by hour, owner, key and model. Every
// gateway writes to it once per Options.Flush; a gateway that is killed takes
// along what it had not written. It may take longer than an admission: its
// time is bounded by ctx alone.
func (l *Limiter) Usage(ctx context.Context, f UsageFilter) ([]UsageRow, error) {
	until := f.Until
	if until.IsZero() {
		until = time.UnixMicro(l.clock.now())
	}
	since := f.Since
	if since.IsZero() {
		since = until.Add(-24 * time.Hour)
	}
	first := max(since.Unix(), until.Add(-usageKept).Unix()) / 3600
	var rows []UsageRow
	for hour := first; hour <= until.Unix()/3600; hour++ {
		found, err := l.usageOfHour(ctx, hour, f)
		if err != nil {
			return nil, err
		}
		rows = append(rows, found...)
	}
	return rows, nil
}

// usageOfHour reads one hour, of all owners or of the one that is asked for.
func (l *Limiter) usageOfHour(ctx context.Context, hour int64, f UsageFilter) ([]UsageRow, error) {
	owners := []string{f.Owner}
	if f.Owner == "" {
		var err error
		if owners, err = l.opt.Redis.SMembers(ctx, l.usageIndex(hour)).Result(); err != nil {
			return nil, err
		}
	}
	var rows []UsageRow
	for some := range slices.Chunk(owners, 500) {
		pipe := l.opt.Redis.Pipeline()
		hashes := make([]*redis.MapStringStringCmd, len(some))
		for i, owner := range some {
			hashes[i] = pipe.HGetAll(ctx, l.usageName(owner, hour))
		}
		if err := execute(ctx, pipe); err != nil {
			return nil, err
		}
		for i, hash := range hashes {
			rows = append(rows, usageRows(some[i], hour, hash.Val(), f)...)
		}
	}
	slices.SortFunc(rows, func(a, b UsageRow) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.KeyID, b.KeyID), cmp.Compare(a.Model, b.Model))
	})
	return rows, nil
}

// usageRows turns one hash into rows.
func usageRows(owner string, hour int64, hash map[string]string, f UsageFilter) []UsageRow {
	found := map[[2]string]*UsageRow{}
	for field, text := range hash {
		keyID, model, count, ok := parseUsageField(field)
		n, err := strconv.ParseInt(text, 10, 64)
		if !ok || err != nil || f.KeyID != "" && f.KeyID != keyID || f.Model != "" && f.Model != model {
			continue
		}
		row := found[[2]string{keyID, model}]
		if row == nil {
			row = &UsageRow{Hour: time.Unix(hour*3600, 0).UTC(), Owner: owner, KeyID: keyID, Model: model}
			found[[2]string{keyID, model}] = row
		}
		row.set(count, n)
	}
	rows := make([]UsageRow, 0, len(found))
	for _, row := range found {
		rows = append(rows, *row)
	}
	return rows
}

func (r *UsageRow) set(count string, n int64) {
	switch count {
	case "requests":
		r.Requests = n
	case "refused":
		r.Refused = n
	case "prompt":
		r.PromptTokens = n
	case "completion":
		r.CompletionTokens = n
	case "ttft":
		r.TTFT = micros(n)
	case "firsts":
		r.FirstTokens = n
	}
}
