// Package meter makes Prometheus metrics and writes down what it made: name,
// type, labels and help of every family. docs/metrics.md is generated from that
// list, and the tests hold a running gateway against it, so a metric that is
// not made here fails them.
package meter
