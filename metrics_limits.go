package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"mete/limits"
	"mete/proxy/meter"
)

// redisBuckets span a local Redis and the time-out of one call, in seconds.
var redisBuckets = []float64{50e-6, 100e-6, 200e-6, 400e-6, 800e-6, 1.6e-3, 3.2e-3, 6.4e-3, 12.8e-3, 25e-3, 50e-3, .1, .5, 1, 5}

// redisMeters are what is counted on the way to Redis.
type redisMeters struct {
	took   prometheus.Histogram
	errors prometheus.Counter
}

func newRedisMeters(b *meter.Book) redisMeters {
	return redisMeters{
		took:   b.Histogram("redis_call_duration_seconds", "Time of one round trip to Redis, which carries admissions and settlements of several requests where there are many.", redisBuckets),
		errors: b.Counter("redis_errors_total", "Round trips to Redis that failed or took too long."),
	}
}

func (m redisMeters) called(took time.Duration, err error) {
	m.took.Observe(took.Seconds())
	if err != nil {
		m.errors.Inc()
	}
}

// limitMeters are what is told of the limiter and of its Redis.
type limitMeters struct {
	collector
	stats func() limits.Stats
	pool  func() *redis.PoolStats

	admitted, refused, locally, refunded family
	reserved, used, overshoot            family
	pending, dropped, gateways, up       family
	connections, waits, timeouts         family
}

func newLimitMeters(b *meter.Book, stats func() limits.Stats, pool func() *redis.PoolStats) *limitMeters {
	m := &limitMeters{collector: collector{book: b}, stats: stats, pool: pool}
	m.admitted = m.counter("limits_admitted_total", "Requests that the limits let in, by who decided: redis, or this gateway's share while Redis is away.", "by")
	m.refused = m.counter("limits_refused_total", "Requests that a limit refused, by its kind (requests, tokens, concurrent).", "kind")
	m.locally = m.counter("limits_refused_locally_total", "Of those, the ones for which Redis was not asked, because the answer was known.")
	m.refunded = m.counter("limits_refunded_total", "Requests that were let in and reached no replica, so that everything was given back.")
	m.reserved = m.counter("limits_reserved_tokens_total", "Tokens that were reserved for requests that have ended.")
	m.used = m.counter("limits_used_tokens_total", "Tokens that these requests used.")
	m.overshoot = m.counter("limits_overshoot_tokens_total", "Tokens that requests used beyond what was reserved for them.")
	m.pending = m.gauge("limits_settlements_pending", "Ends of requests that Redis has not been told of yet.")
	m.dropped = m.counter("limits_settlements_dropped_total", "Ends of requests that Redis was never told of, because it was away for too long.")
	m.gateways = m.gauge("limits_gateways", "Gateways that share the limits, as this one knows.")
	m.up = m.gauge("redis_up", "1 while Redis answers, 0 while every gateway holds its share of the limits.")
	m.connections = m.gauge("redis_connections", "Connections to Redis, by state (idle, used).", "state")
	m.waits = m.counter("redis_connection_waits_total", "Calls that waited for a connection to Redis.")
	m.timeouts = m.counter("redis_connection_timeouts_total", "Calls that got no connection to Redis in time.")
	m.read = m.collect
	return m
}

func (m *limitMeters) collect(to chan<- prometheus.Metric) {
	s := m.stats()
	m.admitted.put(to, float64(s.Admitted), "redis")
	m.admitted.put(to, float64(s.Degraded), "share")
	for kind, n := range s.Refused {
		m.refused.put(to, float64(n), string(kind))
	}
	for f, n := range map[*family]int64{
		&m.locally: s.RefusedUnasked, &m.refunded: s.Refunded, &m.reserved: s.ReservedTokens, &m.used: s.UsedTokens,
		&m.overshoot: s.OvershootTokens, &m.pending: int64(s.PendingSettled), &m.dropped: s.DroppedSettled, &m.gateways: s.Gateways,
	} {
		f.put(to, float64(n))
	}
	m.up.put(to, oneIf(!s.RedisAway))
	if p := m.pool(); p != nil {
		m.connections.put(to, float64(p.IdleConns), "idle")
		m.connections.put(to, float64(p.TotalConns-p.IdleConns), "used")
		m.waits.put(to, float64(p.WaitCount))
		m.timeouts.put(to, float64(p.Timeouts))
	}
}
