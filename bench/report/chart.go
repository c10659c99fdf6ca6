package report

import (
	"fmt"
	"math"
	"slices"
)

// series is one line of a chart or one group of bars.
type series struct {
	name   string
	points []point
}

// axis maps values to pixels.
type axis struct {
	from, to   float64 // values
	start, end float64 // pixels
	log        bool
}

func (a axis) at(v float64) float64 {
	from, to := a.from, a.to
	if a.log {
		v, from, to = math.Log10(max(v, from)), math.Log10(from), math.Log10(to)
	}
	return a.start + (v-from)/(to-from)*(a.end-a.start)
}

// ticks are round values within the axis.
func (a axis) ticks() (values []float64) {
	if a.log {
		for v := math.Pow(10, math.Floor(math.Log10(a.from))); v <= a.to*1.0001; v *= 10 {
			for _, m := range []float64{1, 2, 5} {
				if t := v * m; t >= a.from*0.9999 && t <= a.to*1.0001 {
					values = append(values, t)
				}
			}
		}
		return values
	}
	step := math.Pow(10, math.Floor(math.Log10((a.to-a.from)/4)))
	for _, m := range []float64{5, 2} {
		if (a.to-a.from)/(step*m) >= 3 {
			step *= m
			break
		}
	}
	for v := math.Ceil(a.from/step) * step; v <= a.to+step/1000; v += step {
		values = append(values, v)
	}
	return values
}

const (
	left, right, top, bottom = 70.0, 16.0, 34.0, 44.0
	chartWidth, chartHeight  = 640, 360
)

// frame begins a chart with a vertical axis.
func frame(title, unit string, y axis) (*Picture, axis) {
	p := &Picture{Width: chartWidth, Height: chartHeight}
	y.start, y.end = chartHeight-bottom, top
	p.label(point{left, 20}, 0, title)
	for _, v := range y.ticks() {
		p.line(faint, 1, point{left, y.at(v)}, point{chartWidth - right, y.at(v)})
		p.label(point{left - 6, y.at(v) + 4}, 1, tick(v))
	}
	p.label(point{6, top - 6}, 0, unit)
	p.line(ink, 1, point{left, top}, point{left, y.start}, point{chartWidth - right, y.start})
	return p, y
}

func tick(v float64) string { return fmt.Sprintf("%.4g", v) }

// legend names the colours.
func (p *Picture) legend(names []string) {
	x := left
	for i, name := range names {
		p.box(colorOf(i), point{x, chartHeight - 16}, point{x + 12, chartHeight - 6})
		p.label(point{x + 16, chartHeight - 6}, 0, name)
		x += 30 + 7*float64(len(name))
	}
}

// percentileChart draws latencies over percentiles, the tail stretched: each
// further nine of the percentile takes the same room.
func percentileChart(title, unit string, all []series) *Picture {
	least, most := extent(all)
	p, y := frame(title, unit, axis{from: least, to: most, log: least > 0 && most/least > 20})
	const deepest = 3.2 // nines
	x := axis{from: 0, to: deepest, start: left, end: chartWidth - right}
	nines := func(percentile float64) float64 { return min(-math.Log10(max(1-percentile/100, 1e-9)), deepest) }
	for _, t := range []float64{0, 50, 90, 99, 99.9} {
		p.line(faint, 1, point{x.at(nines(t)), top}, point{x.at(nines(t)), y.start})
		p.label(point{x.at(nines(t)), y.start + 16}, 0.5, fmt.Sprintf("p%g", t))
	}
	var names []string
	for i, s := range all {
		var line []point
		for _, q := range s.points {
			line = append(line, point{x.at(nines(q.x)), y.at(q.y)})
		}
		if len(line) > 0 {
			p.line(colorOf(i), 2, line...)
		}
		names = append(names, s.name)
	}
	p.legend(names)
	return p
}

func extent(all []series) (least, most float64) {
	least, most = math.Inf(1), 0
	for _, s := range all {
		for _, q := range s.points {
			least, most = min(least, q.y), max(most, q.y)
		}
	}
	if !(most > 0) {
		return 0, 1
	}
	if most/max(least, 1e-9) <= 20 {
		least = 0
	}
	return least, most * 1.05
}

// bar is a value with the range of its samples.
type bar struct {
	name               string
	value, least, most float64
}

// barChart draws a bar for each value, with a whisker over its range.
func barChart(title, unit string, bars []bar) *Picture {
	most := 0.0
	least := 0.0
	for _, b := range bars {
		most, least = max(most, b.most, b.value), min(least, b.least, b.value)
	}
	if most == least {
		most = least + 1
	}
	p, y := frame(title, unit, axis{from: least * 1.1, to: most * 1.1})
	room := (chartWidth - right - left) / float64(max(1, len(bars)))
	for i, b := range bars {
		centre, half := left+room*(float64(i)+0.5), min(room*0.3, 40)
		p.box(colorOf(i), point{centre - half, y.at(0)}, point{centre + half, y.at(b.value)})
		p.line(ink, 1.5, point{centre, y.at(b.least)}, point{centre, y.at(b.most)})
		for _, v := range []float64{b.least, b.most} {
			p.line(ink, 1.5, point{centre - 5, y.at(v)}, point{centre + 5, y.at(v)})
		}
		p.label(point{centre, chartHeight - bottom + 16}, 0.5, b.name)
		p.label(point{centre, chartHeight - bottom + 31}, 0.5, tick(round3(b.value)))
	}
	return p
}

func round3(v float64) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// spread is the median of values and their range.
func spread(values []float64) (median, least, most float64) {
	if len(values) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]
}
