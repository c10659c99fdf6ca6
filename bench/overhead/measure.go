package overhead

import (
	"context"
	"fmt"
	"time"

	"mete/bench/load"
)

// measurement is what one load did to one proxy.
type measurement struct {
	result   *load.Result
	counters load.Counters // of the window
	window   time.Duration
	cpu      time.Duration // of the proxy within the window; 0 without a process
	rest     time.Duration // likewise, of all that is not the proxy
	resident int64         // most of it seen, bytes
}

// measure lets a load run, and looks at a window of it after a warm-up.
func (l *lab) measure(ctx context.Context, p *Proxy, o load.Options, warm, window time.Duration) (measurement, error) {
	o.Target, o.Timeout = p.Target, time.Minute
	session, err := load.Start(ctx, o)
	if err != nil {
		return measurement{}, err
	}
	defer session.Stop()
	if err := sleep(ctx, warm); err != nil {
		return measurement{}, err
	}
	m := measurement{}
	profiled := l.profile(ctx, p, window)
	session.Reset()
	began, before, rest := time.Now(), p.cpu(), l.restCPU()
	for time.Since(began) < window {
		if err := sleep(ctx, min(100*time.Millisecond, window)); err != nil {
			return measurement{}, err
		}
		m.resident = max(m.resident, p.resident())
	}
	m.cpu, m.rest = p.cpu()-before, l.restCPU()-rest
	m.counters, m.window = session.Counters(), time.Since(began)
	if err := profiled(); err != nil {
		return measurement{}, err
	}
	m.result = session.Stop()
	if m.result.Counters.Failed > 0 {
		return m, fmt.Errorf("%s failed %d requests: %v", p.Name, m.result.Counters.Failed, m.result.Codes)
	}
	return m, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// cpu is 0 where there is no process to ask.
func (p *Proxy) cpu() time.Duration {
	if p.proc == nil {
		return 0
	}
	d, _ := p.proc.cpu()
	return d
}

func (p *Proxy) resident() int64 {
	if p.proc == nil {
		return 0
	}
	n, _ := p.proc.resident()
	return n
}

// per is the processor time of one of n things, in microseconds.
func (m *measurement) per(n int64) float64 {
	return float64(m.cpu.Nanoseconds()) / 1e3 / float64(max(n, 1))
}

// figures begins a sample: the cost and rate of n things, and which share of a
// core the proxy and everything else took. Where the latter comes near 1, it is
// the laboratory that is measured.
func (m *measurement) figures(n int64) map[string]float64 {
	seconds := m.window.Seconds()
	return map[string]float64{
		"cpu_us": m.per(n), "per_second": float64(n) / seconds, "busy": m.cpu.Seconds() / seconds, "rest_busy": m.rest.Seconds() / seconds,
	}
}

// addQuantiles writes percentiles of a metric, in microseconds.
func (m *measurement) addQuantiles(to map[string]float64, metric load.Metric) {
	for name, q := range map[string]float64{"p50": 50, "p99": 99, "p99.9": 99.9} {
		to[name] = float64(m.result.Quantile(metric, q).Nanoseconds()) / 1e3
	}
}
