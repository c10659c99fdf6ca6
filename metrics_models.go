package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mete/balancer"
	"mete/config"
	"mete/proxy/meter"
)

// modelMeters are what an autoscaler looks at. They are given per model, since
// that is what people think in; what scales is the model's pool, whose other
// models show the same.
type modelMeters struct {
	collector
	config  func() *config.Config
	pools   func() map[string]*balancer.Pool
	predict func(model string) time.Duration // time to the first token

	depth, ttft, utilisation family
}

func newModelMeters(b *meter.Book, m modelMeters) *modelMeters {
	m.book = b
	m.depth = m.gauge("model_queue_depth", "Requests that wait for a place in a batch, for autoscalers: in this gateway, and this gateway's share of those that wait in the replicas. The sum over all gateways is the whole.", "model", "pool")
	m.ttft = m.gauge("model_predicted_ttft_seconds", "Time to the first token that a request should expect now, for autoscalers. Take the largest of all gateways.", "model", "pool")
	m.utilisation = m.gauge("model_utilisation", "Use of the pool's replicas, for autoscalers, 0 to 1: the mean of their KV caches' use, where a replica in which requests wait counts as full. Take the mean of all gateways.", "model", "pool")
	made := &m
	made.read = made.collect
	return made
}

func (m *modelMeters) collect(to chan<- prometheus.Metric) {
	views, waiting := map[string]balancer.View{}, map[string]int{}
	for name, p := range m.pools() {
		views[name], waiting[name] = p.Snapshot(), p.QueueLength()
	}
	for _, model := range m.config().Models {
		v := views[model.Pool]
		m.depth.put(to, float64(waiting[model.Pool])+v.Share*waitingThere(v), model.ID, model.Pool)
		m.ttft.put(to, m.predict(model.ID).Seconds(), model.ID, model.Pool)
		m.utilisation.putIf(to, utilisation(v), model.ID, model.Pool)
	}
}

// waitingThere is how many requests wait in the replicas, as far as they say.
func waitingThere(v balancer.View) (sum float64) {
	for _, r := range v.Replicas {
		if r.Load.Waiting != nil && r.Load.Used {
			sum += *r.Load.Waiting
		}
	}
	return sum
}

// utilisation is nil where no replica that serves says anything.
func utilisation(v balancer.View) *float64 {
	var sum, n float64
	for _, r := range v.Replicas {
		serves := r.State == balancer.StateReady || r.State == balancer.StateWarming
		if !serves || !r.Load.Used || r.Load.KV == nil {
			continue
		}
		n++
		if r.Load.Waiting != nil && *r.Load.Waiting > 0 {
			sum++
		} else {
			sum += *r.Load.KV
		}
	}
	if n == 0 {
		return nil
	}
	mean := sum / n
	return &mean
}
