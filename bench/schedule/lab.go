package schedule

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"mete/bench/sim"
)

// Options are how much is measured.
type Options struct {
	Replicas int
	Seeds    int           // runs of everything that is reported, each with the next seed
	Probes   int           // seeds of each step in the search for saturation
	Warm     time.Duration // simulated before anything is counted
	Window   time.Duration // counted
	Curves   int           // loads of a curve; 0 draws none
	Profile  string        // of bench/sim
	Report   func(step string)
}

// Standard is what the published table is made with.
func Standard() Options {
	return Options{Replicas: 8, Seeds: 5, Probes: 3, Warm: 45 * time.Second, Window: 90 * time.Second, Curves: 7, Profile: "llama-3.1-8b-h100"}
}

// Quick is for a look: everything, but short and with less certainty.
func Quick() Options {
	o := Standard()
	o.Seeds, o.Probes, o.Warm, o.Window, o.Curves = 3, 1, 20*time.Second, 40*time.Second, 0
	return o
}

// Side is a policy at work.
type Side struct {
	Workload string `json:"workload"`
	Policy   string `json:"policy"`
}

func (s Side) String() string { return s.Policy + " on " + s.Workload }

// Lab runs simulations, several at once, and remembers what it has found. Its
// methods are for one goroutine.
type Lab struct {
	o         Options
	profile   sim.Profile
	ctx       context.Context
	saturated map[Side]float64
	known     map[string][]Metrics
}

// NewLab opens a laboratory, whose runs end early when ctx does.
func NewLab(ctx context.Context, o Options) (*Lab, error) {
	p, err := sim.NamedProfile(o.Profile)
	if err != nil {
		return nil, err
	}
	if o.Report == nil {
		o.Report = func(string) {}
	}
	if o.Replicas < 1 || o.Seeds < 1 || o.Window <= 0 {
		return nil, fmt.Errorf("replicas, seeds and duration: want at least 1")
	}
	o.Probes = max(o.Probes, 1)
	return &Lab{o: o, profile: p, ctx: ctx, saturated: map[Side]float64{}, known: map[string][]Metrics{}}, nil
}

// Runs simulates a side under a load, once for each seed.
func (l *Lab) Runs(s Side, load float64, seeds int) ([]Metrics, error) {
	name := fmt.Sprintf("%v %.6g %d", s, load, seeds)
	if found := l.known[name]; found != nil {
		return found, nil
	}
	w, err := WorkloadNamed(s.Workload)
	if err != nil {
		return nil, err
	}
	l.o.Report(fmt.Sprintf("%v, %.1f requests/s, %d seeds", s, load, seeds))
	results := make([]Metrics, seeds)
	failed := make([]error, seeds)
	places := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for i := range seeds {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			if failed[i] = l.ctx.Err(); failed[i] != nil {
				return
			}
			results[i], failed[i] = Run(Setup{
				Workload: w, Policy: s.Policy, Load: load, Replicas: l.o.Replicas, Seed: uint64(i + 1),
				Warm: l.o.Warm, Window: l.o.Window, Profile: l.profile,
			})
		})
	}
	all.Wait()
	for _, err := range failed {
		if err != nil {
			return nil, err
		}
	}
	l.known[name] = results
	return results, nil
}

const (
	step      = 1.5 // of the search, up and down
	halvings  = 5   // then: to about one per cent
	tries     = 12
	partOfMax = 0.8 // of the saturation, at which rows are measured
)

// Saturation is the highest load, in requests a second, at which the number of
// waiting requests does not grow.
func (l *Lab) Saturation(s Side) (float64, error) {
	if s.Workload == "flood" { // the load is that of the callers without the flood
		s.Workload = "calm"
	}
	if found, ok := l.saturated[s]; ok {
		return found, nil
	}
	w, err := WorkloadNamed(s.Workload)
	if err != nil {
		return 0, err
	}
	load, err := highest(w.guess*float64(l.o.Replicas), func(load float64) (bool, error) {
		runs, err := l.Runs(s, load, l.o.Probes)
		stable := 0
		for _, m := range runs {
			if m.Stable {
				stable++
			}
		}
		return 2*stable > len(runs), err
	})
	if err == nil {
		l.saturated[s] = load
	}
	return load, err
}

// highest finds the highest load that holds, beginning with a guess.
func highest(guess float64, holds func(load float64) (bool, error)) (float64, error) {
	ok, err := holds(guess)
	if err != nil {
		return 0, err
	}
	good, bad := guess, guess
	for range tries {
		next := good * step
		if !ok {
			next = bad / step
		}
		held, err := holds(next)
		if err != nil {
			return 0, err
		}
		if held {
			good = next
		} else {
			bad = next
		}
		if held != ok {
			break
		}
	}
	for range halvings {
		middle := math.Sqrt(good * bad)
		held, err := holds(middle)
		if err != nil {
			return 0, err
		}
		if held {
			good = middle
		} else {
			bad = middle
		}
	}
	return good, nil
}

// Median returns the middle value, and the range of all.
func Median(values []float64) (median, least, most float64) {
	if len(values) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]
}

// of takes one figure from each run.
func of(runs []Metrics, figure func(Metrics) float64) []float64 {
	values := make([]float64, len(runs))
	for i, m := range runs {
		values[i] = figure(m)
	}
	return values
}
