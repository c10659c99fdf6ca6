package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"mete/balancer"
)

// poolCollector reads the pools when it is scraped. So a replica that has left
// has no series any more, and nothing is counted twice.
type poolCollector map[string]*balancer.Pool

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("mete_"+name, help, labels, nil)
}

var (
	poolReplicas = describe("pool_replicas", "Replicas, by state.", "pool", "state")
	poolPanic    = describe("pool_panic", "1 while fewer than half of a pool are healthy, so that failed checks are not believed.", "pool")
	poolShare    = describe("pool_traffic_share", "Which part of the traffic on a pool's replicas is this gateway's, 0 to 1.", "pool")
	poolRetries  = describe("pool_retry_budget", "Retries that the budget would grant now.", "pool")

	replicaInFlight = describe("replica_in_flight", "Requests of this gateway on a replica.", "pool", "replica")
	replicaPrefill  = describe("replica_prefill_tokens", "Prompt tokens sent to a replica and not answered yet, estimated.", "pool", "replica")
	replicaRunning  = describe("replica_running", "Requests in a replica's batch, as it last said.", "pool", "replica")
	replicaWaiting  = describe("replica_waiting", "Requests in a replica's queue, as it last said.", "pool", "replica")
	replicaKV       = describe("replica_kv_usage", "Use of a replica's KV cache as it last said, 0 to 1.", "pool", "replica")
	replicaAge      = describe("replica_signal_age_seconds", "Age of what a replica last said of its load.", "pool", "replica")
	replicaScore    = describe("replica_score", "Load with one more request, in prompt tokens for the replica's share; the least is chosen.", "pool", "replica")
	replicaState    = describe("replica_state", "1 for the state that a replica is in.", "pool", "replica", "state")
	replicaBreaker  = describe("replica_breaker", "1 for the state that a replica's breaker is in.", "pool", "replica", "state")
	replicaEnded    = describe("replica_attempts_total", "Attempts on a replica that have ended, by outcome.", "pool", "replica", "outcome")
)

// Describe implements prometheus.Collector.
func (c poolCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		poolReplicas, poolPanic, poolShare, poolRetries, replicaInFlight, replicaPrefill, replicaRunning, replicaWaiting,
		replicaKV, replicaAge, replicaScore, replicaState, replicaBreaker, replicaEnded,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c poolCollector) Collect(to chan<- prometheus.Metric) {
	for _, p := range c {
		collectPool(p.Snapshot(), to)
	}
}

func collectPool(v balancer.View, to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{v.Pool}, labels...)...)
	}
	panicked := 0.0
	if v.Panicked {
		panicked = 1
	}
	gauge(poolPanic, panicked)
	gauge(poolShare, v.Share)
	gauge(poolRetries, v.Retries)
	for state, n := range countStates(v) {
		gauge(poolReplicas, float64(n), string(state))
	}
	for i := range v.Replicas {
		collectReplica(&v.Replicas[i], gauge)
		for outcome, n := range v.Replicas[i].Outcomes {
			to <- prometheus.MustNewConstMetric(replicaEnded, prometheus.CounterValue, float64(n), v.Pool, v.Replicas[i].ID, outcome)
		}
	}
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

// collectReplica leaves out what the replica has not said.
func collectReplica(r *balancer.ReplicaView, gauge func(*prometheus.Desc, float64, ...string)) {
	gauge(replicaInFlight, float64(r.InFlight), r.ID)
	gauge(replicaPrefill, float64(r.Prefill), r.ID)
	gauge(replicaScore, r.Score, r.ID)
	gauge(replicaState, 1, r.ID, string(r.State))
	gauge(replicaBreaker, 1, r.ID, r.Breaker)
	for d, value := range map[*prometheus.Desc]*float64{
		replicaRunning: r.Load.Running, replicaWaiting: r.Load.Waiting, replicaKV: r.Load.KV,
	} {
		if value != nil {
			gauge(d, *value, r.ID)
		}
	}
	if r.Load.AgeMS != nil {
		gauge(replicaAge, float64(*r.Load.AgeMS)/1000, r.ID)
	}
}
