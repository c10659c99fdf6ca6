package overhead

import (
	"math"
	"slices"
	"time"
)

// Result is what a comparison measured.
type Result struct {
	Date     string   `json:"date"`
	Machine  string   `json:"machine"`
	Versions []string `json:"versions"`
	Skipped  []string `json:"skipped,omitempty"` // not installed
	Settings Settings `json:"settings"`
	HalfLoad float64  `json:"half_load_per_second"`
	Samples  []Sample `json:"samples"`
	Figures  []Figure `json:"figures"`
}

// Settings are the options that make a difference.
type Settings struct {
	Rounds      int     `json:"rounds"`
	WindowMS    float64 `json:"window_ms"`
	Replicas    int     `json:"replicas"`
	Keys        int     `json:"keys"`
	Streams     int     `json:"streams"`
	PaceMS      float64 `json:"pace_ms"`
	ManyStreams int     `json:"many_streams"`
	ManyPaceMS  float64 `json:"many_pace_ms"`
	BigReplicas int     `json:"big_replicas"`
	Pinned      bool    `json:"pinned"`
	Nice        int     `json:"nice,omitempty"`
}

// Sample is one experiment on one proxy in one round.
type Sample struct {
	Round      int                `json:"round"`
	Experiment string             `json:"experiment"`
	Proxy      string             `json:"proxy"`
	Values     map[string]float64 `json:"values"`
}

// Figure is one line of the table: values by proxy, one for each round, and
// their ratios to what they are held against.
type Figure struct {
	ID      string               `json:"id"`
	Title   string               `json:"title"`
	Unit    string               `json:"unit"`
	Against string               `json:"against"`
	Aim     float64              `json:"aim,omitempty"` // of the gateway's ratio
	Values  map[string][]float64 `json:"values"`
	Ratios  map[string][]float64 `json:"ratios"`
}

func newResult(o *Options) *Result {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	return &Result{
		Date: time.Now().UTC().Format(time.RFC3339), Machine: machine(),
		Settings: Settings{
			Rounds: o.Rounds, WindowMS: ms(o.Window), Replicas: o.Replicas, Keys: o.Keys, Streams: o.Streams, PaceMS: ms(o.Pace),
			ManyStreams: o.ManyStreams, ManyPaceMS: ms(o.ManyPace), BigReplicas: o.BigReplicas, Pinned: o.Pin, Nice: o.Nice,
		},
	}
}

func (r *Result) describe(l *lab) {
	r.Versions, r.Skipped = l.notes, l.skipped
	r.Settings.Pinned = l.proxy.core >= 0
}

func (r *Result) add(s Sample) {
	r.Samples = append(r.Samples, s)
	r.Figures = r.figures()
}

// Proxies returns the proxies that were measured, the gateway last.
func (r *Result) Proxies() (names []string) {
	for _, s := range r.Samples {
		if s.Proxy != direct && !slices.Contains(names, s.Proxy) {
			names = append(names, s.Proxy)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return names
}

func rank(name string) int {
	if i := slices.Index([]string{nginx, "haproxy"}, name); i >= 0 {
		return i
	}
	if name == gate {
		return 9
	}
	return 5
}

// value returns one value of one sample; NaN if there is none.
func (r *Result) value(round int, experiment, proxy, name string) float64 {
	for i := range r.Samples {
		s := &r.Samples[i]
		if s.Round == round && s.Experiment == experiment && s.Proxy == proxy {
			if v, ok := s.Values[name]; ok {
				return v
			}
		}
	}
	return math.NaN()
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
