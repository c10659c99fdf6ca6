package overhead

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Options describe a comparison.
type Options struct {
	Command  []string          // the program to compare, and what precedes its arguments
	Others   map[string]string // further proxies by name, with their base URL; their processes are not looked at
	Only     []string          // experiments; all when empty
	Rounds   int
	Window   time.Duration // of one sample
	Replicas int
	Keys     int // stored ones, all in use in the big case

	Streams     int           // for the cost of an event
	Pace        time.Duration // between two events of such a stream
	ManyStreams int           // for memory
	ManyPace    time.Duration
	BigReplicas int

	Pin  bool // to cores
	Nice int  // of all processes; below 0 keeps others off a shared machine's cores
	// Profiles is a folder for profiles of the gateway, one for each of its
	// samples; taking them costs a little. None when empty.
	Profiles string
	Report   func(step string) // what is being done; may be nil
}

// Standard are options that take less than five minutes.
func Standard() Options {
	return Options{
		Rounds: 3, Window: 2 * time.Second, Replicas: 4, Keys: 10_000,
		Streams: 600, Pace: 20 * time.Millisecond,
		ManyStreams: 8000, ManyPace: 400 * time.Millisecond, BigReplicas: 1000, Pin: true,
	}
}

// Quick are options that take less than a minute, and say less.
func Quick() Options {
	o := Standard()
	o.Rounds, o.Window, o.Keys = 1, 1500*time.Millisecond, 1000
	o.Only = []string{"short", "stream", "ttft", "prompt"}
	return o
}

// Names returns the names of the experiments.
func Names() (names []string) {
	for _, e := range experiments() {
		names = append(names, e.name)
	}
	return names
}

func (o *Options) check() error {
	for _, name := range o.Only {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("experiment %q: want one of %v", name, Names())
		}
	}
	switch {
	case len(o.Command) == 0:
		return errors.New("no program to compare")
	case o.Rounds < 1 || o.Window < 100*time.Millisecond:
		return fmt.Errorf("%d rounds of %v: want at least 1 of 100ms", o.Rounds, o.Window)
	case o.Replicas < 1 || o.Keys < 0 || o.Streams < 1 || o.ManyStreams < 1 || o.BigReplicas < 1 || o.Pace <= 0 || o.ManyPace <= 0:
		return errors.New("replicas, streams and their pace must be above 0")
	}
	if o.Report == nil {
		o.Report = func(string) {}
	}
	return nil
}

// Run makes the comparison. The result holds what was measured also when there
// is an error.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	result := newResult(&o)
	o.Report("starting replicas, Redis and proxies")
	l, err := openLab(ctx, o)
	if err != nil {
		return result, err
	}
	defer l.close()
	if l.requests, err = makeRequests(&o); err != nil {
		return result, err
	}
	defer l.rest.settle()()
	result.describe(l)
	o.Report("warming up")
	l.experiment = "warm-up"
	if err := l.calibrate(ctx); err != nil {
		return result, err
	}
	result.HalfLoad = l.rate
	for l.round = range o.Rounds {
		if err := l.playRound(ctx, result); err != nil {
			return result, err
		}
	}
	return result, nil
}

// playRound runs every experiment on every proxy. Who comes first changes with
// the rounds.
func (l *lab) playRound(ctx context.Context, result *Result) error {
	for _, e := range experiments() {
		if len(l.o.Only) == 0 && e.asked || len(l.o.Only) > 0 && !slices.Contains(l.o.Only, e.name) {
			continue
		}
		for i := range l.proxies {
			p := l.proxies[(i+l.round)%len(l.proxies)]
			if !e.takes(p) {
				continue
			}
			l.o.Report(fmt.Sprintf("round %d of %d: %s, %s", l.round+1, l.o.Rounds, e.title, p.Name))
			l.experiment = e.name
			values, err := e.run(ctx, l, p)
			if err != nil {
				return fmt.Errorf("%s: %w", e.title, err)
			}
			result.add(Sample{Round: l.round, Experiment: e.name, Proxy: p.Name, Values: values})
		}
	}
	return nil
}

// openBig starts the gateway and the replicas of the big case.
func (l *lab) openBig(ctx context.Context) error {
	replicas, err := l.startReplicas(ctx, "big-replicas", l.o.BigReplicas)
	if err != nil {
		return err
	}
	l.big, err = l.startGateway(ctx, "big-"+gate, replicas, l.accessLog("big-"+gate))
	if err == nil {
		l.big.Target.Keys = l.keys
	}
	return err
}
