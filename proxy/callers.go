package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mete/proxy/meter"
)

// otherCallers is the owner under which those are counted for whom there is no
// room.
const otherCallers = "other"

// callerIdle is how long an owner without requests keeps its series while
// others want the room.
const callerIdle = time.Hour

// callers are the series by owner of a key. Their number is bounded: who comes
// when there is no room is counted as "other", until somebody has been idle for
// callerIdle.
type callers struct {
	requests *prometheus.CounterVec // by owner
	refused  *prometheus.CounterVec // by owner and fault
	tokens   *prometheus.CounterVec // by owner and kind
	bound    int
	other    *callerMetrics

	mu     sync.RWMutex
	known  map[string]*callerMetrics
	looked time.Time // when the idle ones were last looked for
}

// callerMetrics are the handles of one owner.
type callerMetrics struct {
	requests, prompt, completion prometheus.Counter
	limited                      prometheus.Counter
	seen                         lastUse
}

func newCallers(b *meter.Book, bound int) *callers {
	c := &callers{
		requests: b.Counters("caller_requests_total", "Requests that were let in, by the owner of the key. At most metrics.callers owners have series of their own; the rest is counted as other.", "owner"),
		refused:  b.Counters("caller_limited_total", "Requests that a limit refused, by the owner of the key, likewise.", "owner"),
		tokens:   b.Counters("caller_tokens_total", "Tokens that were charged, by the owner of the key and kind (prompt, completion), likewise.", "owner", "kind"),
		bound:    bound,
		known:    map[string]*callerMetrics{},
	}
	c.other = c.handles(otherCallers)
	return c
}

func (c *callers) handles(owner string) *callerMetrics {
	return &callerMetrics{
		requests: c.requests.WithLabelValues(owner), limited: c.refused.WithLabelValues(owner),
		prompt: c.tokens.WithLabelValues(owner, "prompt"), completion: c.tokens.WithLabelValues(owner, "completion"),
	}
}

// of returns the series of an owner.
func (c *callers) of(owner string, now time.Time) *callerMetrics {
	c.mu.RLock()
	m, ok := c.known[owner]
	full := !ok && len(c.known) >= c.bound && now.Sub(c.looked) < time.Minute
	c.mu.RUnlock()
	if !ok {
		if m = c.other; !full && owner != otherCallers {
			m = c.admit(owner, now)
		}
	}
	m.seen.note(now)
	return m
}

// admit makes room for an owner, if there is any to be had.
func (c *callers) admit(owner string, now time.Time) *callerMetrics {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m, ok := c.known[owner]; ok {
		return m
	}
	if len(c.known) >= c.bound {
		c.looked = now
		c.dropIdle(now)
	}
	if len(c.known) >= c.bound {
		return c.other
	}
	m := c.handles(owner)
	c.known[owner] = m
	return m
}

func (c *callers) dropIdle(now time.Time) {
	for owner, m := range c.known {
		if m.seen.since(now) > callerIdle {
			delete(c.known, owner)
			c.requests.DeleteLabelValues(owner)
			c.refused.DeleteLabelValues(owner)
			c.tokens.DeletePartialMatch(prometheus.Labels{"owner": owner})
		}
	}
}

// lastUse is a time that is written down to the minute, so that it costs a
// store only now and then.
type lastUse struct{ minute atomic.Int64 }

func (l *lastUse) note(now time.Time) {
	if m := now.Unix() / 60; l.minute.Load() != m {
		l.minute.Store(m)
	}
}

func (l *lastUse) since(now time.Time) time.Duration {
	return time.Duration(now.Unix()/60-l.minute.Load()) * time.Minute
}
