package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// Run is one result as it was read.
type Run struct {
	File    string
	Label   string
	Numbers map[string]float64
	Curves  map[string][]point // latency in ms over the percentile, by metric
}

// Group is the runs with one label.
type Group struct {
	Label string
	Runs  []Run
}

// Read reads results and groups those with the same label, in the order in
// which labels first come up. Where two files have no label, or one and the
// same label for all of them, files are told apart by their name.
func Read(paths []string) ([]Group, error) {
	var groups []Group
	for _, path := range paths {
		run, err := readRun(path)
		if err != nil {
			return nil, err
		}
		groups = join(groups, run, run.Label)
	}
	if len(groups) == 1 && len(paths) > 1 {
		all := groups[0].Runs
		groups = nil
		for _, run := range all {
			groups = join(groups, run, strings.TrimSuffix(filepath.Base(run.File), ".json"))
		}
	}
	return groups, nil
}

func join(groups []Group, run Run, label string) []Group {
	for i := range groups {
		if groups[i].Label == label {
			groups[i].Runs = append(groups[i].Runs, run)
			return groups
		}
	}
	return append(groups, Group{Label: label, Runs: []Run{run}})
}

func readRun(path string) (Run, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Run{}, err
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(b, &object); err != nil {
		return Run{}, fmt.Errorf("%s: %w", path, err)
	}
	run := Run{File: path, Label: strings.TrimSuffix(filepath.Base(path), ".json"), Numbers: map[string]float64{}, Curves: map[string][]point{}}
	for name, raw := range object {
		var number float64
		if json.Unmarshal(raw, &number) == nil && string(raw) != "null" {
			run.Numbers[name] = number
		}
	}
	var label string
	if json.Unmarshal(object["label"], &label) == nil && label != "" {
		run.Label = label
	}
	if _, ok := run.Numbers["completed"]; !ok {
		return Run{}, fmt.Errorf("%s: %w", path, errNoResult)
	}
	return run, run.readCurves(object)
}

var errNoResult = errors.New("not a result of mete bench or vllm bench serve")

// readCurves takes the whole distributions where there are histograms, and
// otherwise the few percentiles.
func (r *Run) readCurves(object map[string]json.RawMessage) error {
	var encoded map[string]string
	_ = json.Unmarshal(object["histograms"], &encoded) // vLLM has none
	for _, m := range metrics {
		if text, ok := encoded[m.name]; ok {
			h, err := hdr.Decode([]byte(text))
			if err != nil {
				return fmt.Errorf("%s: histogram %s: %w", r.File, m.name, err)
			}
			r.Curves[m.name] = curve(h)
			continue
		}
		for _, p := range []float64{50, 90, 95, 99, 99.9} {
			if v, ok := r.Numbers[fmt.Sprintf("p%g_%s_ms", p, m.name)]; ok {
				r.Curves[m.name] = append(r.Curves[m.name], point{p, v})
			}
		}
	}
	return nil
}

func curve(h *hdr.Histogram) (points []point) {
	if h.TotalCount() == 0 {
		return nil
	}
	for nines := 0.0; nines <= 3.2; nines += 0.05 {
		p := 100 * (1 - math.Pow(10, -nines))
		points = append(points, point{p, float64(h.ValueAtPercentile(p)) / 1e6})
	}
	return points
}

// values are one number of all runs of the group.
func (g *Group) values(name string) (values []float64) {
	for i := range g.Runs {
		if v, ok := g.Runs[i].Numbers[name]; ok {
			values = append(values, v)
		}
	}
	return values
}
