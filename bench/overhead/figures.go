package overhead

import (
	"fmt"
	"math"
)

// line describes how a figure comes from the samples of one round.
type line struct {
	id, title, unit string
	experiment      string
	aim             float64
	against         string
	value           func(r *Result, round int, proxy string) float64
	base            func(r *Result, round int, proxy string) float64 // nil is nginx's value
}

func (r *Result) lines() []line {
	plain := func(experiment, name string) func(*Result, int, string) float64 {
		return func(r *Result, round int, proxy string) float64 { return r.value(round, experiment, proxy, name) }
	}
	// added is what the proxy adds to a latency; less than nothing is noise.
	added := func(experiment, name string) func(*Result, int, string) float64 {
		return func(r *Result, round int, proxy string) float64 {
			return r.value(round, experiment, proxy, name) - r.value(round, experiment, direct, name)
		}
	}
	withRedis := func(name string) func(*Result, int, string) float64 {
		return func(r *Result, round int, proxy string) float64 {
			base := added("ttft", name)(r, round, nginx)
			if proxy == gate {
				base += r.value(round, "ttft", gate, "redis_"+name)
			}
			return base
		}
	}
	extra := func(r *Result, round int, proxy string) float64 {
		return r.value(round, "prompt", proxy, "cpu_us") - r.value(round, "short", proxy, "cpu_us")
	}
	bare := func(r *Result, round int, _ string) float64 { return r.value(round, "short", nginx, "cpu_us") }
	s := &r.Settings
	const held, bareShort = "nginx", "nginx's short request"
	return []line{
		{"short.cpu", "CPU per short request", "µs", "short", 2.0, held, plain("short", "cpu_us"), nil},
		{"stream.cpu", fmt.Sprintf("CPU per streamed event (%g ms apart, %d streams)", s.PaceMS, s.Streams), "µs", "stream", 1.15, held, plain("stream", "cpu_us"), nil},
		{"ttft.p50", "added TTFT at half load, p50", "µs", "ttft", 1.5, "nginx + a Redis round trip", added("ttft", "p50"), withRedis("p50")},
		{"ttft.p99", "added TTFT at half load, p99", "µs", "ttft", 2.0, "nginx + a Redis round trip", added("ttft", "p99"), withRedis("p99")},
		{"ttft.p99.9", "added TTFT at half load, p99.9", "µs", "ttft", 0, held, added("ttft", "p99.9"), nil},
		{"itl.p50", "added inter-token latency, p50", "µs", "stream", 0, held, added("stream", "p50"), nil},
		{"itl.p99", "added inter-token latency, p99", "µs", "stream", 1.2, held, added("stream", "p99"), nil},
		{"itl.p99.9", "added inter-token latency, p99.9", "µs", "stream", 0, held, added("stream", "p99.9"), nil},
		{"many.memory", fmt.Sprintf("resident memory per open stream, %d streams", s.ManyStreams), "KiB", "many", 1.5, held, plain("many", "kib_per_stream"), nil},
		{"many.cpu", fmt.Sprintf("CPU per streamed event (%g ms apart, %d streams)", s.ManyPaceMS, s.ManyStreams), "µs", "many", 0, held, plain("many", "cpu_us"), nil},
		{"prompt.cpu", "extra CPU of a 1 MB prompt over a short one", "µs", "prompt", 1.3, held, extra, nil},
		{"big.cpu", fmt.Sprintf("CPU per streamed event, %d keys, %d replicas, %d streams", s.Keys, s.BigReplicas, s.ManyStreams), "µs", "big", 1.2,
			fmt.Sprintf("mete with %d replicas", s.Replicas), plain("big", "cpu_us"),
			func(r *Result, round int, _ string) float64 { return r.value(round, "many", gate, "cpu_us") }},
		{"observe.on", "CPU per short request with metrics, access log and 1 % traced", "µs", "observe", 0, bareShort, plain("observe", "on"), bare},
		{"observe.off", "the same with none of them", "µs", "observe", 0, bareShort, plain("observe", "off"), bare},
		{"observe.added", "what they add", "µs", "observe", 0.25, bareShort, plain("observe", "added"), bare},
	}
}

// figures are computed from the samples, for as far as there are any.
func (r *Result) figures() (figures []Figure) {
	for _, l := range r.lines() {
		f := Figure{ID: l.id, Title: l.title, Unit: l.unit, Against: l.against, Aim: l.aim, Values: map[string][]float64{}, Ratios: map[string][]float64{}}
		for _, proxy := range r.Proxies() {
			r.fill(&f, &l, proxy)
		}
		if len(f.Values) > 0 {
			figures = append(figures, f)
		}
	}
	return figures
}

func (r *Result) fill(f *Figure, l *line, proxy string) {
	for round := range r.Settings.Rounds {
		value := l.value(r, round, proxy)
		if math.IsNaN(value) {
			continue
		}
		f.Values[proxy] = append(f.Values[proxy], value)
		base := l.value(r, round, nginx)
		if l.base != nil {
			base = l.base(r, round, proxy)
		}
		// A base at or below nothing is noise, and has no ratio.
		if base > 0 {
			f.Ratios[proxy] = append(f.Ratios[proxy], value/base)
		}
	}
}
