package limits

import (
	"errors"
	"sync/atomic"
)

// Stats counts what a limiter did since it was made, for metrics.
type Stats struct {
	Admitted        int64 // by Redis
	Degraded        int64 // by this gateway's share
	Refused         map[Kind]int64
	RefusedUnasked  int64 // of Refused, those for which Redis was not asked
	Refunded        int64
	ReservedTokens  int64 // of settled requests
	UsedTokens      int64
	OvershootTokens int64 // used beyond what was reserved
	PendingSettled  int   // settlements that wait for Redis
	DroppedSettled  int64 // settlements that were given up
	Gateways        int64
	RedisAway       bool
}

type counts struct {
	admitted, degraded, local, refunded atomic.Int64
	requests, tokens, concurrent        atomic.Int64
	reserved, used, overshoot           atomic.Int64
}

func (c *counts) settled(used, reserved int64) {
	c.used.Add(used)
	c.reserved.Add(reserved)
	if used > reserved {
		c.overshoot.Add(used - reserved)
	}
}

// refused notes a refusal by a limit; other errors are nobody's usage.
func (l *Limiter) refused(rec *record, model string, err error) {
	var e *Exceeded
	if !errors.As(err, &e) {
		return
	}
	switch e.Kind {
	case Requests:
		l.counts.requests.Add(1)
	case Tokens:
		l.counts.tokens.Add(1)
	case Concurrent:
		l.counts.concurrent.Add(1)
	}
	l.usage.add(l.usageRow(rec.caller.Owner, rec.caller.KeyID, model), usageCounts{refused: 1})
}

// Stats returns the counts.
func (l *Limiter) Stats() Stats {
	c := &l.counts
	n := l.line
	n.mu.Lock()
	pending, dropped := len(n.ends), n.dropped
	n.mu.Unlock()
	return Stats{
		Admitted: c.admitted.Load(), Degraded: c.degraded.Load(), RefusedUnasked: c.local.Load(),
		Refused: map[Kind]int64{
			Requests: c.requests.Load(), Tokens: c.tokens.Load(), Concurrent: c.concurrent.Load(),
		},
		Refunded:       c.refunded.Load(),
		ReservedTokens: c.reserved.Load(), UsedTokens: c.used.Load(), OvershootTokens: c.overshoot.Load(),
		PendingSettled: pending, DroppedSettled: dropped,
		Gateways: l.share.Load().gateways, RedisAway: !l.up.Load(),
	}
}
