package meter

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// namespace begins the name of every family.
const namespace = "mete"

// The types of families, as Prometheus names them.
const (
	Counter   = "counter"
	Gauge     = "gauge"
	Histogram = "histogram"
)

// Family is what /metrics says under one name.
type Family struct {
	Name   string // whole, mete_ and the unit included
	Type   string
	Help   string
	Labels []string
}

// Book makes metrics, registers them, and keeps the list. It is filled while a
// gateway is made and must not be written to by several goroutines.
type Book struct {
	registry prometheus.Registerer
	native   bool
	families []Family
}

// NewBook makes an empty book. Native says whether histograms are native ones
// beside their fixed buckets.
func NewBook(r prometheus.Registerer, native bool) *Book { return &Book{registry: r, native: native} }

// Families are all that was made, by name.
func (b *Book) Families() []Family {
	return slices.SortedFunc(slices.Values(b.families), func(x, y Family) int { return cmp.Compare(x.Name, y.Name) })
}

// Counter makes a counter without labels.
func (b *Book) Counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	b.add(c, Counter, name, help)
	return c
}

// Counters makes a counter with labels.
func (b *Book) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	b.add(c, Counter, name, help, labels...)
	return c
}

// CounterFunc makes a counter that is read when it is scraped.
func (b *Book) CounterFunc(name, help string, read func() float64) {
	b.add(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, read), Counter, name, help)
}

// Gauge makes a gauge without labels.
func (b *Book) Gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
	b.add(g, Gauge, name, help)
	return g
}

// Gauges makes a gauge with labels.
func (b *Book) Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
	b.add(g, Gauge, name, help, labels...)
	return g
}

// GaugeFunc makes a gauge that is read when it is scraped.
func (b *Book) GaugeFunc(name, help string, read func() float64) {
	b.add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, read), Gauge, name, help)
}

// Histogram makes a histogram without labels; buckets are upper bounds.
func (b *Book) Histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(b.histogram(name, help, buckets))
	b.add(h, Histogram, name, help)
	return h
}

// Histograms makes a histogram with labels; buckets are upper bounds.
func (b *Book) Histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(b.histogram(name, help, buckets), labels)
	b.add(h, Histogram, name, help, labels...)
	return h
}

// Describe writes a family down whose collector the caller makes, and
// registers by Register.
func (b *Book) Describe(kind, name, help string, labels ...string) *prometheus.Desc {
	b.note(kind, name, help, labels)
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

// Register registers a collector whose families were described.
func (b *Book) Register(c prometheus.Collector) { b.registry.MustRegister(c) }

// nativeGrowth is how much wider each native bucket is than the one before:
// quantiles are off by 5 % at the most.
const nativeGrowth = 1.1

func (b *Book) histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	o := prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}
	if b.native {
		o.NativeHistogramBucketFactor = nativeGrowth
		o.NativeHistogramMaxBucketNumber = 160
	}
	return o
}

func (b *Book) add(c prometheus.Collector, kind, name, help string, labels ...string) {
	b.note(kind, name, help, labels)
	b.registry.MustRegister(c)
}

func (b *Book) note(kind, name, help string, labels []string) {
	b.families = append(b.families, Family{Name: namespace + "_" + name, Type: kind, Help: help, Labels: labels})
}
