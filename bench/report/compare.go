package report

import (
	"fmt"
	"math"
	"strings"
)

type metric struct{ name, title string }

var metrics = []metric{
	{"ttft", "time to first token"}, {"itl", "inter-token latency"}, {"tpot", "time per output token"},
	{"e2el", "end-to-end latency"}, {"client_queue_time", "wait in the generator"},
}

// rows are the figures of a comparison, in order.
func rows() (names []string) {
	names = []string{"completed", "failed", "duration", "request_throughput", "request_goodput", "goodput_share", "output_throughput", "total_token_throughput", "max_concurrent_requests"}
	for _, m := range metrics {
		for _, kind := range []string{"mean", "median", "p90", "p99", "p99.9"} {
			names = append(names, kind+"_"+m.name+"_ms")
		}
	}
	return names
}

// Table compares groups, as Markdown: of each figure the median over the
// group's runs, with the range if there are several, and its ratio to the first
// group's.
func Table(groups []Group) string {
	var b strings.Builder
	b.WriteString("| |")
	for i, g := range groups {
		fmt.Fprintf(&b, " %s (%d) |", g.Label, len(g.Runs))
		if i > 0 {
			b.WriteString(" ratio |")
		}
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", 2*len(groups)-1) + "\n")
	for _, name := range rows() {
		cells, known := row(groups, name)
		if known {
			fmt.Fprintf(&b, "| %s | %s |\n", name, strings.Join(cells, " | "))
		}
	}
	return b.String()
}

func row(groups []Group, name string) (cells []string, known bool) {
	first, _, _ := spread(groups[0].values(name))
	for i := range groups {
		values := groups[i].values(name)
		median, least, most := spread(values)
		switch {
		case len(values) == 0:
			cells = append(cells, "–")
		case len(values) == 1:
			cells = append(cells, fmt.Sprintf("%.5g", median))
		default:
			cells = append(cells, fmt.Sprintf("%.5g (%.5g–%.5g)", median, least, most))
		}
		known = known || len(values) > 0
		if i > 0 {
			cells = append(cells, ratio(median, first))
		}
	}
	return cells, known
}

func ratio(value, first float64) string {
	if r := value / first; !math.IsNaN(r) && !math.IsInf(r, 0) {
		return fmt.Sprintf("%.3f", r)
	}
	return "–"
}

// Named is a picture with a name that can be a file's.
type Named struct {
	Name    string
	Picture *Picture
}

// Pictures draws the distributions of all latencies, and the throughputs.
func Pictures(groups []Group) (pictures []Named) {
	for _, m := range metrics {
		var all []series
		drawn := false
		for _, g := range groups {
			for _, run := range g.Runs[:1] { // one line for each group keeps the chart legible
				all = append(all, series{g.Label, run.Curves[m.name]})
				drawn = drawn || len(run.Curves[m.name]) > 0
			}
		}
		if drawn {
			pictures = append(pictures, Named{m.name, percentileChart(m.title, "ms", all)})
		}
	}
	for _, f := range []metric{{"request_throughput", "requests a second"}, {"output_throughput", "tokens a second"}} {
		var bars []bar
		for i := range groups {
			if median, least, most := spread(groups[i].values(f.name)); !math.IsNaN(median) {
				bars = append(bars, bar{groups[i].Label, median, least, most})
			}
		}
		if len(bars) > 0 {
			pictures = append(pictures, Named{f.name, barChart(f.title, "1/s", bars)})
		}
	}
	return pictures
}
