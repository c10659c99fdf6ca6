package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mete/proxy/meter"
)

// sourceMeters are what is told of DNS and Consul, where replicas are found.
type sourceMeters struct {
	collector
	sources func() []*source

	up, replicas, changed family
}

func newSourceMeters(b *meter.Book, sources func() []*source) *sourceMeters {
	m := &sourceMeters{collector: collector{book: b}, sources: sources}
	m.up = m.gauge("source_up", "1 while a source of replicas (a DNS name, a Consul service) answers, 0 while the last good list is used.", "pool", "source")
	m.replicas = m.gauge("source_replicas", "Replicas in the list of a source that is in use.", "pool", "source")
	m.changed = m.gauge("source_changed_timestamp_seconds", "When that list was new, as Unix time.", "pool", "source")
	m.read = m.collect
	return m
}

func (m *sourceMeters) collect(to chan<- prometheus.Metric) {
	for _, s := range m.sources() {
		v := s.status()
		m.up.put(to, oneIf(v.Fault == ""), v.Pool, v.Source)
		m.replicas.put(to, float64(v.Replicas), v.Pool, v.Source)
		if v.Changed != nil {
			m.changed.put(to, float64(v.Changed.UnixMilli())/1000, v.Pool, v.Source)
		}
	}
}

// lifeMeters are about the gateway itself.
type lifeMeters struct {
	reloads    *prometheus.CounterVec // by result
	loaded     prometheus.Gauge
	registered prometheus.Gauge
}

func newLifeMeters(b *meter.Book) lifeMeters {
	m := lifeMeters{
		reloads:    b.Counters("config_reloads_total", "Times that the configuration was read again while the gateway ran, by result (ok, refused).", "result"),
		loaded:     b.Gauge("config_loaded_timestamp_seconds", "When the configuration in use was loaded, as Unix time."),
		registered: b.Gauge("consul_registered", "1 while Consul knows this gateway as it should, or where it need not."),
	}
	m.reloads.WithLabelValues("ok")
	m.reloads.WithLabelValues("refused")
	m.loaded.SetToCurrentTime()
	m.registered.Set(1)
	return m
}

// reloaded notes that the configuration was read again: it is in use now, or it
// was refused and err says why.
func (m *lifeMeters) reloaded(err error) {
	if err != nil {
		m.reloads.WithLabelValues("refused").Inc()
		return
	}
	m.reloads.WithLabelValues("ok").Inc()
	m.loaded.Set(float64(time.Now().UnixMilli()) / 1000)
}
