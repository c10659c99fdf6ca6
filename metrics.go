package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"mete/config"
	"mete/proxy/meter"
)

// newMeters makes the registry that /metrics shows, and the book that all
// metrics of the gateway's own are made in.
func newMeters(c config.Metrics) (*prometheus.Registry, *meter.Book) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	book := meter.NewBook(registry, c.NativeHistograms)
	book.Gauges("build_info", "1, with the version that is running.", "version").WithLabelValues(buildVersion()).Set(1)
	return registry, book
}

// collector reads what it reports when it is scraped: nothing is counted twice,
// and what has gone has no series any more.
type collector struct {
	book  *meter.Book
	descs []*prometheus.Desc
	read  func(chan<- prometheus.Metric)
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) { c.read(to) }

// family is one name of a collector.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func (c *collector) gauge(name, help string, labels ...string) family {
	return c.family(prometheus.GaugeValue, meter.Gauge, name, help, labels)
}

func (c *collector) counter(name, help string, labels ...string) family {
	return c.family(prometheus.CounterValue, meter.Counter, name, help, labels)
}

func (c *collector) family(kind prometheus.ValueType, word, name, help string, labels []string) family {
	d := c.book.Describe(word, name, help, labels...)
	c.descs = append(c.descs, d)
	return family{d, kind}
}

// put reports one value.
func (f family) put(to chan<- prometheus.Metric, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
}

// putIf reports a value that may not be known.
func (f family) putIf(to chan<- prometheus.Metric, value *float64, labels ...string) {
	if value != nil {
		f.put(to, *value, labels...)
	}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
