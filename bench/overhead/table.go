package overhead

import (
	"fmt"
	"math"
	"strings"
)

// Table is the result as a Markdown table: the median over the rounds, and of
// the gateway's ratio also the range.
func (r *Result) Table() string {
	proxies := r.Proxies()
	var b strings.Builder
	fmt.Fprintf(&b, "| | %s | mete's ratio (range) | aim |\n|---|%s---|---|\n", strings.Join(proxies, " | "), strings.Repeat("---|", len(proxies)))
	for _, f := range r.Figures {
		fmt.Fprintf(&b, "| %s, %s |", f.Title, f.Unit)
		for _, p := range proxies {
			fmt.Fprintf(&b, " %s |", f.cell(p))
		}
		fmt.Fprintf(&b, " %s | %s |\n", f.ratio(), f.aim())
	}
	return b.String()
}

func (f *Figure) cell(proxy string) string {
	median, _, _ := Median(f.Values[proxy])
	if math.IsNaN(median) {
		return "–"
	}
	return number(median)
}

// number has three digits, and no more.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func (f *Figure) ratio() string {
	median, least, most := Median(f.Ratios[gate])
	if math.IsNaN(median) {
		return "–"
	}
	text := fmt.Sprintf("%.2f (%.2f–%.2f)", median, least, most)
	if f.Against != nginx {
		text += " of " + f.Against
	}
	return text
}

func (f *Figure) aim() string {
	if f.Aim == 0 {
		return "–"
	}
	return fmt.Sprintf("≤ %.2f", f.Aim)
}

// Text is the table with what one must know to read it.
func (r *Result) Text() string {
	text := fmt.Sprintf("%s, %s\n", r.Date, r.Machine)
	for _, v := range r.Versions {
		text += v + "\n"
	}
	for _, s := range r.Skipped {
		text += s + " is not installed and was left out\n"
	}
	text += fmt.Sprintf("%d rounds of %g ms, half load is %.0f streams a second\n", r.Settings.Rounds, r.Settings.WindowMS, r.HalfLoad)
	if busy := r.busiest(); busy > 0.8 {
		text += fmt.Sprintf("the generator's side was up to %.0f %% busy while latencies were measured: read them with care\n", 100*busy)
	}
	return text + "\n" + r.Table()
}

// busiest is the most that generator, replicas and Redis together took of a core
// in the samples whose latencies count.
func (r *Result) busiest() (busy float64) {
	for _, s := range r.Samples {
		if s.Experiment == "ttft" || s.Experiment == "stream" {
			busy = max(busy, s.Values["rest_busy"])
		}
	}
	return busy
}
