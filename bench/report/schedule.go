package report

import (
	"maps"
	"slices"

	"mete/bench/schedule"
)

// SchedulePictures draws a comparison of choices: latency, throughput and cache
// hits over load for each workload that has curves, and who waited under a flood.
func SchedulePictures(r *schedule.Result) (pictures []Named) {
	for _, workload := range slices.Sorted(maps.Keys(r.Curves)) {
		for _, c := range []struct {
			name, title, unit string
			log               bool
			figure            func(schedule.Metrics) float64
		}{
			{"mean-ttft", "mean TTFT", "ms", true, func(m schedule.Metrics) float64 { return m.TTFT.Mean }},
			{"p99-ttft", "p99 TTFT", "ms", true, func(m schedule.Metrics) float64 { return m.TTFT.P99 }},
			{"throughput", "throughput", "tokens/s", false, func(m schedule.Metrics) float64 { return m.Tokens }},
			{"hits", "cached part of the prompts", "part", false, func(m schedule.Metrics) float64 { return m.HitRate }},
		} {
			lines := curves(r.Curves[workload], c.figure)
			if _, most := extent(lines); c.name == "hits" && most == 1 {
				continue // nothing is shared
			}
			pictures = append(pictures, Named{"schedule-" + workload + "-" + c.name,
				loadChart(workload+": "+c.title+" over load (requests/s)", c.unit, c.log, lines)})
		}
	}
	if len(r.Fairness) > 0 {
		pictures = append(pictures, Named{"schedule-fairness", fairnessChart(r.Fairness)})
	}
	return pictures
}

func curves(list []schedule.Curve, figure func(schedule.Metrics) float64) (lines []series) {
	for _, c := range list {
		s := series{name: c.Policy}
		for _, m := range c.Points {
			s.points = append(s.points, point{m.Load, figure(m)})
		}
		lines = append(lines, s)
	}
	return lines
}

// loadChart draws lines over load.
func loadChart(title, unit string, log bool, all []series) *Picture {
	least, most := extent(all)
	p, y := frame(title, unit, axis{from: least, to: most, log: log && least > 0})
	x := axis{start: left, end: chartWidth - right}
	for _, s := range all {
		for _, q := range s.points {
			x.to = max(x.to, q.x)
		}
	}
	for _, v := range x.ticks() {
		p.label(point{x.at(v), y.start + 16}, 0.5, tick(v))
	}
	var names []string
	for i, s := range all {
		var line []point
		for _, q := range s.points {
			line = append(line, point{x.at(q.x), y.at(q.y)})
		}
		if len(line) > 0 {
			p.line(colorOf(i), 2, line...)
		}
		names = append(names, s.name)
	}
	p.legend(names)
	return p
}

// fairnessChart shows the p99 of those who do not flood.
func fairnessChart(runs map[string][]schedule.Metrics) *Picture {
	var bars []bar
	for _, policy := range slices.Sorted(maps.Keys(runs)) {
		var values []float64
		for _, m := range runs[policy] {
			values = append(values, m.Others.P99)
		}
		median, least, most := spread(values)
		bars = append(bars, bar{policy, median, least, most})
	}
	return barChart("flood: p99 TTFT of the other callers", "ms", bars)
}
