package config

import (
	"net/url"
	"strings"
)

// Log says what is logged, how, and where to.
type Log struct {
	// Level is the least important level that is logged: trace, debug, info,
	// warn, error. It can be changed while the gateway runs. Default: info.
	Level string `yaml:"level"`
	// Format is json, console, or auto: console on a terminal, else json.
	// Default: auto.
	Format string `yaml:"format"`
	// File is the path that is appended to. Default: empty, standard error.
	File string `yaml:"file"`
	// Sample is which part of the exchanges that went well is logged, 0 to 1.
	// What was refused, failed or cut is always logged. Default: 1.
	Sample float64 `yaml:"sample"`
}

// Metrics says what /metrics of the admin listener holds.
type Metrics struct {
	// Callers is how many owners of keys have series of their own; all others
	// are counted together, under the owner "other". 0 to 10000; 0 names
	// nobody. Count. Default: 100.
	Callers int `yaml:"callers"`
	// Requests counts and times requests. Without, those metrics stay at
	// nought, and what is read from the gateway when it is scraped is left:
	// pools, replicas, limits, the process. Default: true.
	Requests bool `yaml:"requests"`
	// NativeHistograms adds Prometheus's native histograms to the fixed
	// buckets. Prometheus must be told to scrape them. Default: false.
	NativeHistograms bool `yaml:"native_histograms"`
}

// Trace says where spans are sent, and for how many requests.
type Trace struct {
	// URL is where spans are sent by OTLP over HTTP (protobuf): a collector's
	// http://host:4318/v1/traces. Default: empty, nothing is traced.
	URL string `yaml:"url"`
	// Sample is which part of the requests is traced, 0 to 1, where the caller
	// sends no traceparent that decides it. Default: 0.01.
	Sample float64 `yaml:"sample"`
	// Authorization is the whole value of the header Authorization for the
	// collector, like "Bearer TOKEN". Default: empty, none.
	Authorization Secret `yaml:"authorization"`
	// AuthorizationFile is a file that holds authorization.
	AuthorizationFile string `yaml:"authorization_file"`
}

const mostCallers = 10_000

// checkObserve checks log, metrics and trace.
func (d *document) checkObserve(c *Config) {
	d.oneOf("log.level", c.Log.Level, []string{"trace", "debug", "info", "warn", "error"})
	d.oneOf("log.format", c.Log.Format, []string{"auto", "json", "console"})
	d.part("log.sample", c.Log.Sample)
	if n := c.Metrics.Callers; n < 0 || n > mostCallers {
		d.fail("metrics.callers", "%s is out of range: write a whole number from 0 to %d", d.quoted("metrics.callers"), mostCallers)
	}
	d.part("trace.sample", c.Trace.Sample)
	if c.Trace.URL != "" && !isCollector(c.Trace.URL) {
		d.fail("trace.url", "%s is not a collector's URL: write it with its path, like http://127.0.0.1:4318/v1/traces", d.quoted("trace.url"))
	}
}

// isCollector reports whether spans can be sent to a URL. What is secret in it
// belongs into authorization.
func isCollector(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil &&
		strings.HasPrefix(u.Path, "/") && u.RawQuery == "" && u.Fragment == ""
}

func (d *document) part(path string, value float64) {
	if !(value >= 0 && value <= 1) { // so written, NaN is refused
		d.fail(path, "%s is out of range: write a number from 0 to 1, like 0.05", d.quoted(path))
	}
}
