package limits

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"mete/auth/redistest"
	"mete/config"
)

// clockKey is where a store's clock lies while a test moves it.
const clockKey = "test:clock"

// settableClock makes the scripts read their clock from clockKey.
func settableClock(head string) string {
	edited := strings.Replace(head, "redis.call('TIME')", "{0, redis.call('GET', '"+clockKey+"')}", 1)
	if edited == head {
		panic("the scripts do not read the clock where this test thinks")
	}
	return edited
}

// model is what the scripts should do, in Go, for one account. It stands on
// the arithmetic that the gateway uses while Redis is away.
type model struct {
	policy  *policy
	windows []window
	live    map[ID]live
	log     []charged // everything ever let in and not refunded
}

type live struct {
	until   int64
	buckets []int64
	cost    []int64
	entry   int
}

type charged struct {
	at   int64
	cost []int64
}

func (m *model) admit(now int64, id ID, cost []int64, lease int64) (verdict, wait int64, sums []int64) {
	if held, ok := m.live[id]; ok && held.until > now {
		return replyOK, 0, nil
	}
	for i := range m.windows {
		s := &m.policy.shapes[i]
		w := m.windows[i]
		w.roll(s.bucket(now))
		wait = max(wait, w.wait(s, s.limit, cost[i], now))
		sums = append(sums, w.sum)
	}
	if m.policy.concurrent > 0 && m.count(now) >= m.policy.concurrent {
		wait = max(wait, time.Second.Microseconds())
	}
	if wait > 0 {
		return replyExceeded, wait, sums
	}
	held := live{until: now + lease, cost: cost, entry: len(m.log)}
	for i := range m.windows {
		m.windows[i].roll(m.policy.shapes[i].bucket(now))
		held.buckets = append(held.buckets, m.windows[i].newest)
		m.windows[i].change(m.windows[i].newest, cost[i])
		sums[i] = m.windows[i].sum
	}
	m.live[id] = held
	m.log = append(m.log, charged{now, append([]int64{}, cost...)})
	return replyOK, 0, sums
}

func (m *model) settle(now int64, id ID, diff []int64) int64 {
	held, ok := m.live[id]
	delete(m.live, id)
	for other, lease := range m.live { // what has lapsed is swept, and does not come back when the clock steps back
		if lease.until <= now {
			delete(m.live, other)
		}
	}
	if !ok {
		return 0
	}
	for i := range m.windows {
		if diff[i] == 0 {
			continue
		}
		bucket := held.buckets[i]
		w := m.windows[i]
		w.roll(m.policy.shapes[i].bucket(now))
		if diff[i] > 0 {
			bucket = w.newest
		} else {
			m.log[held.entry].cost[i] += diff[i]
		}
		if bucket >= w.newest-buckets { // else nothing is written, not even that time has passed
			w.change(bucket, diff[i])
			m.windows[i] = w
		}
	}
	return 1
}

func (m *model) count(now int64) (n int64) {
	for _, held := range m.live {
		if held.until > now {
			n++
		}
	}
	return n
}

// over is by how much the worst window that ends at now is over its limit.
func (m *model) over(now int64) (worst int64) {
	for i := range m.policy.shapes {
		s := &m.policy.shapes[i]
		var sum int64
		for _, c := range m.log {
			if c.at > now-s.per.Microseconds() {
				sum += c.cost[i]
			}
		}
		worst = max(worst, sum-s.limit)
	}
	return worst
}

// bench is one account in a store whose clock a test moves.
type bench struct {
	rdb     redis.UniversalClient
	scripts *scripts
	policy  *policy
	admitOp *op
	endOp   *op
	t       *rapid.T
}

func newBench(t *rapid.T, rdb redis.UniversalClient, p *policy) *bench {
	b := &bench{rdb: rdb, scripts: loadScripts(settableClock), policy: p, t: t, admitOp: newAdmitOp(p), endOp: newSettleOp(p)}
	rdb.FlushDB(t.Context())
	b.admitOp.script, b.admitOp.mode = b.scripts.admit, trustKey
	copy(b.admitOp.args[argKeys:], []any{"{o}w", "{o}l", "{o}k"})
	b.endOp.script = b.scripts.settle
	copy(b.endOp.args[argKeys:], []any{"{o}w", "{o}l"})
	return b
}

func (b *bench) run(o *op, now int64) []int64 {
	b.rdb.Set(b.t.Context(), clockKey, strconv.FormatInt(now, 10), 0)
	o.reset(true)
	if err := b.rdb.Process(b.t.Context(), o.cmd); err != nil {
		b.t.Fatalf("script: %v", err)
	}
	return o.cmd.Val()
}

func (b *bench) admit(now int64, id ID, cost []int64, lease int64) reply {
	copy(b.admitOp.cost, cost)
	b.admitOp.id, b.admitOp.args[argLease] = id, lease
	r := reply(b.run(b.admitOp, now))
	if !r.whole(len(cost)) {
		b.t.Fatalf("admit.lua gave %v", r)
	}
	return r
}

// The scripts do what the arithmetic in Go does, on both stores, whatever the
// order of requests, settlements and time, which may step back; and as long as
// it does not, no true window ever holds more than its limit.
func TestScriptsAreTheModel(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		rapid.Check(t, func(t *rapid.T) { checkModel(t, rdb) })
	})
}

func checkModel(t *rapid.T, rdb redis.UniversalClient) {
	second := int64(time.Second / time.Microsecond)
	p := newPolicy("p", plan(
		requests(rapid.Int64Range(1, 6).Draw(t, "requests"), time.Second),
		tokens(rapid.Int64Range(5, 60).Draw(t, "tokens"), time.Duration(rapid.Int64Range(1, 7).Draw(t, "per"))*777*time.Millisecond),
		config.Limit{Concurrent: rapid.Int64Range(1, 8).Draw(t, "concurrent")},
	))
	b := newBench(t, rdb, p)
	m := &model{policy: p, windows: make([]window, len(p.shapes)), live: map[ID]live{}}
	now := 1_700_000_000 * second
	var ids []ID
	steady := true // the clock, so far; without that there is no true window
	for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
		pause := rapid.OneOf(
			rapid.Int64Range(0, 200_000), rapid.Int64Range(0, 3*second), rapid.Just(int64(0)),
			rapid.Int64Range(-100_000, 0), rapid.Map(rapid.Int64Range(0, 30), func(n int64) int64 { return max(0, n-29) * -20 * second }),
		).Draw(t, "pause")
		now += pause
		steady = steady && pause >= 0
		switch rapid.SampledFrom([]string{"admit", "admit", "admit", "repeat", "settle"}).Draw(t, "what") {
		case "admit":
			id := ID{byte(step), 1}
			cost := []int64{1, rapid.Int64Range(0, min(20, p.shapes[1].limit)).Draw(t, "cost")}
			verdict, wait, sums := m.admit(now, id, cost, 5*second)
			r := b.admit(now, id, cost, 5*second)
			_, gotWait, _ := r.refusal()
			if r.verdict() != verdict || gotWait != wait || r.sum(0) != sums[0] || r.sum(1) != sums[1] {
				t.Fatalf("at %d: script %v, model verdict %d wait %d sums %v", now, r, verdict, wait, sums)
			}
			if verdict == replyOK {
				ids = append(ids, id)
				if r.bucket(0) != m.live[id].buckets[0] || r.bucket(1) != m.live[id].buckets[1] {
					t.Fatalf("script charged %v, model %v", r, m.live[id].buckets)
				}
			}
			if over := m.over(now); over > 0 && steady {
				t.Fatalf("a true window is over its limit by %d", over)
			}
		case "repeat":
			if len(ids) == 0 {
				continue
			}
			id := rapid.SampledFrom(ids).Draw(t, "id")
			if held, ok := m.live[id]; ok && held.until > now {
				r := b.admit(now, id, held.cost, 5*second)
				same := r.bucket(0) == held.buckets[0] && r.bucket(1) == held.buckets[1]
				if r.verdict() != replyOK || steady && !same {
					t.Fatalf("repeated command: %v, it had charged %v", r, held.buckets)
				}
			}
		case "settle":
			if len(ids) == 0 {
				continue
			}
			id := rapid.SampledFrom(ids).Draw(t, "id")
			held, ok := m.live[id]
			if ok && held.until <= now {
				continue // whether a lapsed lease is still there is nobody's promise
			}
			diff := []int64{rapid.SampledFrom([]int64{0, -1}).Draw(t, "refund"), 0}
			buckets := []int64{0, 0}
			if ok {
				buckets = held.buckets
				diff[1] = rapid.Int64Range(-held.cost[1], 10).Draw(t, "diff")
			}
			copy(b.endOp.bucket, buckets)
			copy(b.endOp.cost, diff)
			b.endOp.id = id
			if got, want := b.run(b.endOp, now)[0], m.settle(now, id, diff); got != want {
				t.Fatalf("settle gave %d, model %d", got, want)
			}
		}
	}
}
