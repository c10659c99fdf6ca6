package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"mete/balancer"
	"mete/proxy/meter"
)

// poolMeters are what is told of pools and their replicas.
type poolMeters struct {
	collector
	pools func() map[string]*balancer.Pool

	replicas, panic, share, retries, queue family
	replica                                replicaMeters
}

// replicaMeters are what is told of one replica.
type replicaMeters struct {
	inFlight, prefill, running, waiting, kv, age family
	score, capacity, state, breaker, ended       family
	checkAge, checkFails                         family
}

func newPoolMeters(b *meter.Book, pools func() map[string]*balancer.Pool) *poolMeters {
	m := &poolMeters{collector: collector{book: b}, pools: pools}
	m.replicas = m.gauge("pool_replicas", "Replicas, by state.", "pool", "state")
	m.panic = m.gauge("pool_panic", "1 while fewer than half of a pool are healthy, so that failed checks are not believed.", "pool")
	m.share = m.gauge("pool_traffic_share", "Which part of the traffic on a pool's replicas is this gateway's, 0 to 1.", "pool")
	m.retries = m.gauge("pool_retry_budget", "Retries that the budget would grant now.", "pool")
	m.queue = m.gauge("pool_queue_length", "Requests that wait in this gateway for a place on a replica.", "pool")
	m.replica = m.describeReplica()
	m.read = m.collect
	return m
}

func (m *poolMeters) describeReplica() (r replicaMeters) {
	r.inFlight = m.gauge("replica_in_flight", "Requests of this gateway on a replica.", "pool", "replica")
	r.prefill = m.gauge("replica_prefill_tokens", "Prompt tokens sent to a replica and not answered yet, estimated.", "pool", "replica")
	r.running = m.gauge("replica_running", "Requests in a replica's batch, as it last said.", "pool", "replica")
	r.waiting = m.gauge("replica_waiting", "Requests in a replica's queue, as it last said.", "pool", "replica")
	r.kv = m.gauge("replica_kv_usage", "Use of a replica's KV cache as it last said, 0 to 1.", "pool", "replica")
	r.age = m.gauge("replica_signal_age_seconds", "Age of what a replica last said of its load.", "pool", "replica")
	r.score = m.gauge("replica_score", "Load with one more request, in prompt tokens for the replica's share; the least is chosen.", "pool", "replica")
	r.capacity = m.gauge("replica_capacity", "A replica's weight, less during its slow start.", "pool", "replica")
	r.state = m.gauge("replica_state", "1 for the state that a replica is in.", "pool", "replica", "state")
	r.breaker = m.gauge("replica_breaker", "1 for the state that a replica's breaker is in.", "pool", "replica", "state")
	r.ended = m.counter("replica_attempts_total", "Attempts on a replica that have ended, by outcome.", "pool", "replica", "outcome")
	r.checkAge = m.gauge("replica_check_age_seconds", "Age of the last health check of a replica.", "pool", "replica")
	r.checkFails = m.gauge("replica_check_fails", "Health checks of a replica that have failed in a row.", "pool", "replica")
	return r
}

func (m *poolMeters) collect(to chan<- prometheus.Metric) {
	for _, p := range m.pools() {
		m.queue.put(to, float64(p.QueueLength()), p.Name())
		m.collectPool(to, p.Snapshot())
	}
}

func (m *poolMeters) collectPool(to chan<- prometheus.Metric, v balancer.View) {
	m.panic.put(to, oneIf(v.Panicked), v.Pool)
	m.share.put(to, v.Share, v.Pool)
	m.retries.put(to, v.Retries, v.Pool)
	for state, n := range countStates(v) {
		m.replicas.put(to, float64(n), v.Pool, string(state))
	}
	for i := range v.Replicas {
		m.replica.collect(to, v.Pool, &v.Replicas[i])
	}
}

// collect leaves out what the replica has not said.
func (m *replicaMeters) collect(to chan<- prometheus.Metric, pool string, r *balancer.ReplicaView) {
	m.inFlight.put(to, float64(r.InFlight), pool, r.ID)
	m.prefill.put(to, float64(r.Prefill), pool, r.ID)
	m.score.put(to, r.Score, pool, r.ID)
	m.capacity.put(to, r.Capacity, pool, r.ID)
	m.state.put(to, 1, pool, r.ID, string(r.State))
	m.breaker.put(to, 1, pool, r.ID, r.Breaker)
	m.running.putIf(to, r.Load.Running, pool, r.ID)
	m.waiting.putIf(to, r.Load.Waiting, pool, r.ID)
	m.kv.putIf(to, r.Load.KV, pool, r.ID)
	m.age.putIf(to, seconds(r.Load.AgeMS), pool, r.ID)
	m.checkAge.putIf(to, seconds(r.Health.AgeMS), pool, r.ID)
	m.checkFails.put(to, float64(r.Health.Fails), pool, r.ID)
	for outcome, n := range r.Outcomes {
		m.ended.put(to, float64(n), pool, r.ID, outcome)
	}
}

func seconds(ms *int64) *float64 {
	if ms == nil {
		return nil
	}
	s := float64(*ms) / 1000
	return &s
}

// countStates has an entry for every state that a pool's replica can have, so
// that an alert on one of them always has a series.
func countStates(v balancer.View) map[balancer.State]int {
	n := map[balancer.State]int{
		balancer.StateReady: 0, balancer.StateWarming: 0, balancer.StateOpen: 0, balancer.StateSuspect: 0,
		balancer.StateUnhealthy: 0, balancer.StateRefused: 0, balancer.StateWrongModel: 0, balancer.StateMaintenance: 0,
	}
	for _, r := range v.Replicas {
		n[r.State]++
	}
	return n
}
