package main

import (
	"fmt"
	"math"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"mete/balancer"
)

// column is one of a pool's table.
type column struct {
	title string
	width int
	left  bool // its cells stand at the left
	text  func(*balancer.ReplicaView) string
	paint func(*balancer.ReplicaView) lipgloss.Style // nil is none
}

// pad brings a text to the column's width.
func (c column) pad(text string) string {
	text = ansi.Truncate(text, c.width, "~")
	blank := strings.Repeat(" ", c.width-ansi.StringWidth(text))
	if c.left {
		return text + blank
	}
	return blank + text
}

func (c column) cell(r *balancer.ReplicaView) string {
	text := c.pad(c.text(r))
	if c.paint == nil {
		return text
	}
	return c.paint(r).Render(text)
}

// The columns beside the first, and the blanks between all, take so many.
const (
	narrowRest = 58
	wideRest   = 96
	leastName  = 14
)

// columns are those for which the frame is wide enough.
func (f frame) columns(v *balancer.View) []column {
	rest, wide := narrowRest, f.width >= wideRest+21
	if wide {
		rest = wideRest
	}
	name := leastName
	for i := range v.Replicas {
		name = max(name, ansi.StringWidth(v.Replicas[i].ID))
	}
	list := []column{
		{"REPLICA", min(name, max(f.width-rest, leastName)), true, func(r *balancer.ReplicaView) string { return r.ID }, nil},
		{"STATE", 11, true, func(r *balancer.ReplicaView) string { return string(r.State) },
			func(r *balancer.ReplicaView) lipgloss.Style { return statePaint[r.State] }},
		{"FLIGHT", 6, false, func(r *balancer.ReplicaView) string { return compact(float64(r.InFlight)) }, nil},
	}
	if wide {
		list = append(list,
			column{"PREFILL", 7, false, func(r *balancer.ReplicaView) string { return compact(float64(r.Prefill)) }, nil},
			column{"BATCH", 5, false, func(r *balancer.ReplicaView) string { return told(r.Load.Running) }, nil})
	}
	list = append(list, column{"QUEUE", 5, false, func(r *balancer.ReplicaView) string { return told(r.Load.Waiting) }, queuePaint})
	if wide {
		list = append(list, column{"KV CACHE", 13, false, func(r *balancer.ReplicaView) string { return bar(r.Load.KV, 8) + percent(r.Load.KV, 5) }, kvPaint},
			column{"AGE", 5, false, age, agePaint})
	} else {
		list = append(list, column{"KV", 4, false, func(r *balancer.ReplicaView) string { return percent(r.Load.KV, 0) }, kvPaint})
	}
	list = append(list, f.history(v)...)
	if wide {
		list = append(list, column{"TOTAL", 5, false, func(r *balancer.ReplicaView) string { return compact(attempts(r)) }, nil})
	}
	return list
}

// history are the columns that tell what became of attempts.
func (f frame) history(v *balancer.View) []column {
	sum := 0.0
	for i := range v.Replicas {
		sum += attempts(&v.Replicas[i]) - f.attemptsBefore(v.Pool, v.Replicas[i].ID)
	}
	return []column{
		{"BREAKER", 7, true, breaker, breakerPaint},
		{"SHARE", 5, false, func(r *balancer.ReplicaView) string {
			if !f.hasRates() || sum <= 0 {
				return "-"
			}
			return fmt.Sprintf("%.0f%%", max(attempts(r)-f.attemptsBefore(v.Pool, r.ID), 0)/sum*100)
		}, nil},
		{"REQ/S", 5, false, func(r *balancer.ReplicaView) string {
			return f.rate(attempts(r), f.attemptsBefore(v.Pool, r.ID))
		}, nil},
		{"FAULTS", 6, false, func(r *balancer.ReplicaView) string { return compact(faults(r)) }, func(r *balancer.ReplicaView) lipgloss.Style {
			if faults(r) > 0 {
				return paintBad
			}
			return paintDim
		}},
	}
}

// attempts on a replica that have ended.
func attempts(r *balancer.ReplicaView) (n float64) {
	for outcome, count := range r.Outcomes {
		if outcome != balancer.Unused.String() {
			n += float64(count)
		}
	}
	return n
}

func faults(r *balancer.ReplicaView) (n float64) {
	for _, o := range []balancer.Outcome{balancer.ReplicaFault, balancer.TimedOut, balancer.ConnectFailed} {
		n += float64(r.Outcomes[o.String()])
	}
	return n
}

func (f frame) attemptsBefore(pool, id string) float64 {
	for i := range f.before.Pools {
		for j := range f.before.Pools[i].Replicas {
			if r := &f.before.Pools[i].Replicas[j]; f.before.Pools[i].Pool == pool && r.ID == id {
				return attempts(r)
			}
		}
	}
	return 0
}

func told(x *float64) string {
	if x == nil {
		return "-"
	}
	return compact(*x)
}

// percent is the share in a field of so many columns.
func percent(x *float64, width int) string {
	text := "-"
	if x != nil {
		text = fmt.Sprintf("%.0f%%", *x*100)
	}
	return fmt.Sprintf("%*s", width, text)
}

func bar(x *float64, width int) string {
	if x == nil {
		return strings.Repeat(" ", width)
	}
	full := min(int(math.Round(*x*float64(width))), width)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// age is that of the load.
func age(r *balancer.ReplicaView) string {
	if r.Load.AgeMS == nil {
		return "never"
	}
	return fmt.Sprintf("%.1fs", min(float64(*r.Load.AgeMS)/1000, 999))
}

func breaker(r *balancer.ReplicaView) string {
	if r.Breaker == "half-open" {
		return "half"
	}
	return r.Breaker
}

func breakerPaint(r *balancer.ReplicaView) lipgloss.Style {
	return map[string]lipgloss.Style{"closed": paintDim, "open": paintBad}[r.Breaker]
}

func agePaint(r *balancer.ReplicaView) lipgloss.Style {
	if !r.Load.Used {
		return paintCare
	}
	return paintDim
}

// llm-d calls a replica saturated at a queue of 5 and at 80 % of its cache.
func queuePaint(r *balancer.ReplicaView) lipgloss.Style {
	if r.Load.Waiting != nil && *r.Load.Waiting >= 5 {
		return paintCare
	}
	return lipgloss.NewStyle()
}

func kvPaint(r *balancer.ReplicaView) lipgloss.Style {
	switch {
	case r.Load.KV != nil && *r.Load.KV >= 0.95:
		return paintBad
	case r.Load.KV != nil && *r.Load.KV >= 0.8:
		return paintCare
	}
	return lipgloss.NewStyle()
}
