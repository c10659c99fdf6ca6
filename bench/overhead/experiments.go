package overhead

import (
	"context"
	"fmt"
	"time"

	"mete/bench/load"
)

// experiment is one kind of load and what is measured under it.
type experiment struct {
	name  string
	title string
	takes func(*Proxy) bool
	run   func(context.Context, *lab, *Proxy) (map[string]float64, error)
	asked bool // only when it is asked for by name
}

// experiments in the order of a round.
func experiments() []experiment {
	owned := func(p *Proxy) bool { return p.proc != nil }
	all := func(*Proxy) bool { return true }
	own := func(p *Proxy) bool { return p.Name == gate }
	return []experiment{
		{"short", "short requests", owned, runShort, false},
		{"stream", "streams", all, runStream, false},
		{"ttft", "time to first token at half load", all, runTTFT, false},
		{"prompt", "prompts of 1 MB", owned, runPrompt, false},
		{"many", "many open streams", owned, runMany, false},
		{"big", "many keys, replicas and streams", own, runBig, false},
		{"observe", "metrics, log and traces on and off", own, runObserve, true},
	}
}

const (
	shortCallers  = 32
	promptCallers = 4
	promptTokens  = 200_000 // about 1 MB
)

// requests are made once and used by all proxies; each knows the answer that
// the replicas will give.
type requests struct{ short, first, prompt, stream, many []*load.Request }

func makeRequests(o *Options) (requests, error) {
	whole, stream := load.Shape{Whole: true}, load.Shape{}
	often, seldom := load.Shape{Extra: paced(o.Pace)}, load.Shape{Extra: paced(o.ManyPace)}
	var r requests
	for _, kind := range []struct {
		to                *[]*load.Request
		n, prompt, answer int
		shape             load.Shape
	}{
		{&r.short, 16, 20, 4, whole},
		{&r.first, 16, 20, 1, stream},
		{&r.prompt, 2, promptTokens, 4, whole},
		{&r.stream, 4, 20, o.tokensOf(o.Pace, o.Streams), often},
		{&r.many, 4, 20, o.tokensOf(o.ManyPace, o.ManyStreams), seldom},
	} {
		made, err := makeKind(kind.n, load.Lengths{Prompt: kind.prompt, Answer: kind.answer}, kind.shape)
		if err != nil {
			return r, err
		}
		*kind.to = made
	}
	return r, nil
}

func makeKind(n int, l load.Lengths, s load.Shape) ([]*load.Request, error) {
	s.Model, s.IgnoreEOS, s.NoUsage = model, true, true
	made, err := load.Synthetic(1, n, l, s)
	if err != nil {
		return nil, err
	}
	for _, q := range made {
		if q.Expect, err = load.Expect(replicaConfig(), "/v1/chat/completions", q.Body); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// ramp is the time over which so many streams are opened.
func ramp(streams int) time.Duration { return time.Duration(streams) * 500 * time.Microsecond }

// paced asks a replica for an event each so often, of this stream alone: the
// streams are not in step.
func paced(pace time.Duration) map[string]any {
	return map[string]any{"sim_fault": fmt.Sprintf("slow; factor=1; pause=%s", pace)}
}

// tokensOf is how many tokens keep a stream open for longer than its sample.
func (o *Options) tokensOf(pace time.Duration, streams int) int {
	return int((3*ramp(streams)+2*o.Window+2*time.Second)/pace) + 4
}

func runShort(ctx context.Context, l *lab, p *Proxy) (map[string]float64, error) {
	m, err := l.measure(ctx, p, load.Options{Requests: l.requests.short, Concurrency: shortCallers}, l.o.Window/4, l.o.Window)
	return m.figures(m.counters.Completed), err
}

func runStream(ctx context.Context, l *lab, p *Proxy) (map[string]float64, error) {
	m, err := l.measure(ctx, p, load.Options{Requests: l.requests.stream, Concurrency: l.o.Streams, RampUp: ramp(l.o.Streams)}, ramp(l.o.Streams)+500*time.Millisecond, l.o.Window)
	if err != nil {
		return nil, err
	}
	figures := m.figures(m.counters.Events)
	m.addQuantiles(figures, load.ITL)
	return figures, nil
}

// runTTFT sends streams at half load, at the same rate for all, and times round
// trips to Redis meanwhile.
func runTTFT(ctx context.Context, l *lab, p *Proxy) (map[string]float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	trips := pingWhile(ctx, l.redis)
	schedule := load.Constant(load.Random(uint64(l.round)), l.rate)
	m, err := l.measure(ctx, p, load.Options{Requests: l.requests.first, Schedule: schedule}, l.o.Window/4, l.o.Window)
	if err != nil {
		return nil, err
	}
	figures := m.figures(m.counters.Completed)
	m.addQuantiles(figures, load.TTFT)
	cancel()
	round := <-trips
	figures["redis_p50"], figures["redis_p99"] = round.quantile(0.5), round.quantile(0.99)
	return figures, nil
}

func runPrompt(ctx context.Context, l *lab, p *Proxy) (map[string]float64, error) {
	m, err := l.measure(ctx, p, load.Options{Requests: l.requests.prompt, Concurrency: promptCallers}, l.o.Window/4, l.o.Window)
	return m.figures(m.counters.Completed), err
}

func runMany(ctx context.Context, l *lab, p *Proxy) (map[string]float64, error) {
	if err := p.restart(ctx); err != nil {
		return nil, err
	}
	m, err := l.measure(ctx, p, load.Options{Requests: l.requests.many, Concurrency: l.o.ManyStreams, RampUp: ramp(l.o.ManyStreams)}, ramp(l.o.ManyStreams)+l.o.ManyPace, l.o.Window)
	if err != nil {
		return nil, err
	}
	if open := m.counters.InFlight; open < int64(l.o.ManyStreams)*99/100 {
		return nil, fmt.Errorf("%s holds %d open streams of %d", p.Name, open, l.o.ManyStreams)
	}
	figures := m.figures(m.counters.Events)
	figures["kib_per_stream"] = float64(m.resident-p.fresh) / 1024 / float64(l.o.ManyStreams)
	figures["resident_mib"] = float64(m.resident) / (1 << 20)
	return figures, nil
}

// runBig is runMany on a gateway of its own in front of many replicas.
func runBig(ctx context.Context, l *lab, _ *Proxy) (map[string]float64, error) {
	if l.big == nil {
		if err := l.openBig(ctx); err != nil {
			return nil, err
		}
	}
	return runMany(ctx, l, l.big)
}

// most is how busy everything but the proxy may be while latencies are measured,
// as a share of a core.
const most = 0.4

// calibrate warms up every proxy and finds half load: the rate of streams at
// which the gateway uses half a core, or, on a machine where everything else
// would then be too busy to be punctual, what that can bear.
func (l *lab) calibrate(ctx context.Context) error {
	for _, p := range l.proxies {
		m, err := l.measure(ctx, p, load.Options{Requests: l.requests.first, Concurrency: shortCallers}, l.o.Window/4, l.o.Window/2)
		if err != nil {
			return err
		}
		if p.Name == gate {
			done := float64(max(1, m.counters.Completed))
			l.rate = min(0.5*done/m.cpu.Seconds(), most*done/m.rest.Seconds())
		}
	}
	return nil
}
