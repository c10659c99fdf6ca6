package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// Result is a comparison.
type Result struct {
	Settings   Settings             `json:"settings"`
	Rows       []Row                `json:"rows"`
	Saturation []Saturated          `json:"saturation"`
	Curves     map[string][]Curve   `json:"curves,omitempty"`   // by workload
	Fairness   map[string][]Metrics `json:"fairness,omitempty"` // by policy, under the flood at 80 % of its own saturation
}

// Settings are the options that make a difference.
type Settings struct {
	Replicas int     `json:"replicas"`
	Seeds    int     `json:"seeds"`
	Probes   int     `json:"probes"`
	Warm     float64 `json:"warm_seconds"`
	Window   float64 `json:"window_seconds"`
	Profile  string  `json:"profile"`
}

// Saturated is the load at which a side saturates, in requests a second.
type Saturated struct {
	Side
	Load float64 `json:"load"`
}

// Curve is a policy over load: medians.
type Curve struct {
	Policy string    `json:"policy"`
	Points []Metrics `json:"points"`
}

// Compare works out every row whose id is in only, or all.
func (l *Lab) Compare(only []string) (*Result, error) {
	r := &Result{Settings: Settings{l.o.Replicas, l.o.Seeds, l.o.Probes, l.o.Warm.Seconds(), l.o.Window.Seconds(), l.o.Profile}}
	for _, id := range only {
		if !slices.ContainsFunc(aims, func(a aim) bool { return a.id == id }) {
			return nil, fmt.Errorf("there is no row %q", id)
		}
	}
	for _, a := range aims {
		if len(only) > 0 && !slices.Contains(only, a.id) {
			continue
		}
		row, err := l.measure(a)
		if err != nil {
			return nil, err
		}
		r.Rows = append(r.Rows, row)
	}
	if err := l.draw(r); err != nil {
		return nil, err
	}
	for side, load := range l.saturated {
		r.Saturation = append(r.Saturation, Saturated{side, load})
	}
	slices.SortFunc(r.Saturation, func(a, b Saturated) int { return strings.Compare(a.String(), b.String()) })
	return r, nil
}

// drawn are the workloads that get curves.
var drawn = []string{"multi-turn", "heavy-tailed"}

func (l *Lab) draw(r *Result) error {
	if l.o.Curves == 0 {
		return nil
	}
	r.Curves, r.Fairness = map[string][]Curve{}, map[string][]Metrics{}
	for _, workload := range drawn {
		most, err := l.Saturation(Side{workload, Mete})
		if err != nil {
			return err
		}
		for _, policy := range Policies() {
			c, err := l.curve(Side{workload, policy}, 1.1*most)
			if err != nil {
				return err
			}
			r.Curves[workload] = append(r.Curves[workload], c)
		}
	}
	for _, policy := range []string{Direct, Mete} {
		most, err := l.Saturation(Side{"calm", policy})
		if err != nil {
			return err
		}
		if r.Fairness[policy], err = l.Runs(Side{"flood", policy}, partOfMax*most, l.o.Seeds); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) curve(s Side, most float64) (Curve, error) {
	c := Curve{Policy: s.Policy}
	for i := range l.o.Curves {
		runs, err := l.Runs(s, most*float64(i+1)/float64(l.o.Curves), l.o.Probes)
		if err != nil {
			return c, err
		}
		c.Points = append(c.Points, middle(runs))
	}
	return c, nil
}

// middle is the run with the median of the mean times.
func middle(runs []Metrics) Metrics {
	sorted := slices.SortedStableFunc(slices.Values(runs), func(a, b Metrics) int {
		return int(math.Copysign(1, a.TTFT.Mean-b.TTFT.Mean))
	})
	return sorted[len(sorted)/2]
}

// Table is the result as a Markdown table.
func (r *Result) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Medians over %d seeds, %d replicas (%s), %v simulated after %v of warming up.\n\n",
		r.Settings.Seeds, r.Settings.Replicas, r.Settings.Profile, seconds(r.Settings.Window), seconds(r.Settings.Warm))
	b.WriteString("| | against | load: 80 % of | requests/s | mete | the other | ratio (range) | aim | |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, row := range r.Rows {
		for i, p := range row.Points {
			last := i == len(row.Points)-1
			fmt.Fprintf(&b, "| %s | %s | %s | %.4g | %s | %s | %s | %s | %s |\n", row.Title, row.Against, p.Of, p.Load,
				quantity(p.Ours, row.Unit), quantity(p.Base, row.Unit)+mark(p.Unstable), ratio(p), row.wanted(last), row.verdict(last))
		}
	}
	b.WriteString("\n† its queue grows: the time only tells the length of the run.\n")
	return b.String()
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func mark(unstable bool) string {
	if unstable {
		return " †"
	}
	return ""
}

func quantity(v float64, unit string) string {
	if v >= 1000 {
		return strings.TrimSpace(fmt.Sprintf("%.0f %s", v, unit))
	}
	return strings.TrimSpace(fmt.Sprintf("%.3g %s", v, unit))
}

func ratio(p Point) string { return fmt.Sprintf("%.2f (%.2f–%.2f)", p.Ratio, p.Least, p.Most) }

func (r *Row) wanted(last bool) string {
	sign := "≤"
	if r.AtLeast {
		sign = "≥"
	}
	if !last || r.Aim == 0 {
		return ""
	}
	return fmt.Sprintf("%s %g", sign, r.Aim)
}

func (r *Row) verdict(last bool) string {
	switch {
	case !last || r.Aim == 0:
		return ""
	case r.Reached():
		return "reached"
	}
	return "missed"
}

// Bounds are the worst values that are accepted, by row.
type Bounds map[string]float64

// ReadBounds reads a JSON object of bounds.
func ReadBounds(path string) (Bounds, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var bounds Bounds
	if err := json.Unmarshal(b, &bounds); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for id := range bounds {
		if !slices.ContainsFunc(aims, func(a aim) bool { return a.id == id }) {
			return nil, fmt.Errorf("%s: there is no row %q", path, id)
		}
	}
	return bounds, nil
}

// Check returns an error for each row that is worse than its bound. Bounds of
// rows that were not measured are passed over; that none was is an error.
func (b Bounds) Check(r *Result) error {
	var broken []error
	measured := 0
	for i := range r.Rows {
		row := &r.Rows[i]
		bound, ok := b[row.ID]
		if !ok {
			continue
		}
		measured++
		if !row.keeps(bound) {
			last := row.Points[len(row.Points)-1]
			broken = append(broken, fmt.Errorf("%s: %.3f is worse than the %g that is accepted", row.ID, row.value(last), bound))
		}
	}
	if measured == 0 {
		return errors.New("none of the bounded rows was measured")
	}
	return errors.Join(broken...)
}
