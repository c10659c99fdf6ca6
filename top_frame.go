package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"mete/balancer"
)

// The sixteen colours of the terminal, so that its theme holds.
var (
	paintTitle  = lipgloss.NewStyle().Bold(true)
	paintDim    = lipgloss.NewStyle().Foreground(lipgloss.BrightBlack)
	paintGood   = lipgloss.NewStyle().Foreground(lipgloss.Green)
	paintWarm   = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
	paintCare   = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	paintBad    = lipgloss.NewStyle().Foreground(lipgloss.Red)
	paintAside  = lipgloss.NewStyle().Foreground(lipgloss.Blue)
	paintHeader = lipgloss.NewStyle().Foreground(lipgloss.BrightBlack).Underline(true)
)

var statePaint = map[balancer.State]lipgloss.Style{
	balancer.StateReady: paintGood, balancer.StateWarming: paintWarm, balancer.StateSuspect: paintCare,
	balancer.StateMaintenance: paintAside, balancer.StateOpen: paintBad, balancer.StateRefused: paintBad,
	balancer.StateUnhealthy: paintBad, balancer.StateWrongModel: paintBad,
}

// frame is one picture of a gateway, made of two looks.
type frame struct {
	now, before look
	base        string // address of the admin listener
	width       int    // columns
}

// lines are the frame's, none of them wider than it.
func (f frame) lines() []string {
	lines := []string{
		f.ends(paintTitle.Render(f.now.Service+" top")+paintDim.Render("  "+f.base+"  "+f.now.Version), paintDim.Render(f.now.at.Format(time.TimeOnly))),
		f.fit(f.totals()),
	}
	for i := range f.now.Pools {
		lines = append(append(lines, ""), f.pool(&f.now.Pools[i])...)
	}
	return lines
}

func (f frame) fit(line string) string { return ansi.Truncate(line, f.width, "...") }

// ends puts one text at the left end of a line, and one at the right.
func (f frame) ends(left, right string) string {
	left = ansi.Truncate(left, max(f.width-ansi.StringWidth(right)-1, 0), "...")
	gap := max(f.width-ansi.StringWidth(left)-ansi.StringWidth(right), 1)
	return left + strings.Repeat(" ", gap) + right
}

func (f frame) totals() string {
	attempts := "-"
	if n := f.now.requests - f.before.requests; n > 0 && f.hasRates() {
		attempts = fmt.Sprintf("%.2f", max(f.now.attempts-f.before.attempts, 0)/n)
	}
	failed := "no 5xx"
	if f.now.failed > 0 {
		failed = paintBad.Render(compact(f.now.failed) + " got 5xx")
	}
	return strings.Join([]string{
		f.rate(f.now.requests, f.before.requests) + " requests/s", f.rate(f.now.tokens, f.before.tokens) + " tokens/s",
		compact(f.now.inFlight) + " in flight", attempts + " attempts each", failed,
	}, paintDim.Render(" | "))
}

func (f frame) hasRates() bool { return !f.before.at.IsZero() && f.now.at.After(f.before.at) }

// rate is what a counter grew by in a second.
func (f frame) rate(now, before float64) string {
	if !f.hasRates() {
		return "-"
	}
	r := max(now-before, 0) / f.now.at.Sub(f.before.at).Seconds() // below 0: the gateway began anew
	if r > 0 && r < 99.95 {
		return fmt.Sprintf("%.1f", r)
	}
	return compact(r)
}

func (f frame) pool(v *balancer.View) []string {
	ready := 0
	for _, r := range v.Replicas {
		if r.State == balancer.StateReady || r.State == balancer.StateWarming {
			ready++
		}
	}
	count := fmt.Sprintf("%d of %d ready", ready, len(v.Replicas))
	if ready < len(v.Replicas) {
		count = paintCare.Render(count)
	}
	if len(v.Replicas) == 0 {
		return append([]string{f.fit(paintTitle.Render(v.Pool) + "  " + paintBad.Render("no replicas are known"))}, f.troubles(v.Pool)...)
	}
	facts := []string{count, fmt.Sprintf("%.0f%% of its traffic is ours", v.Share*100), compact(v.Retries) + " retries left"}
	if v.Panicked {
		facts = append(facts, paintBad.Render("panic: failed checks are not believed"))
	}
	lines := []string{f.fit(paintTitle.Render(v.Pool) + "  " + strings.Join(facts, paintDim.Render(", ")))}
	lines = append(lines, f.troubles(v.Pool)...)
	columns := f.columns(v)
	lines = append(lines, row(columns, func(c column) string { return paintHeader.Render(c.pad(c.title)) }))
	for i := range v.Replicas {
		r := &v.Replicas[i]
		lines = append(lines, row(columns, func(c column) string { return c.cell(r) }))
		if r.Why != "" && r.State != balancer.StateWarming && r.State != balancer.StateOpen { // whose why is their name
			lines = append(lines, f.fit(paintDim.Render("  `- "+r.Why)))
		}
	}
	return lines
}

// troubles are what is wrong with the pool's sources.
func (f frame) troubles(pool string) (lines []string) {
	for _, s := range f.now.Sources {
		if s.Pool == pool && s.Fault != "" {
			lines = append(lines, f.fit(paintCare.Render("  "+s.Source+": "+s.Fault)))
		}
	}
	return lines
}

func row(columns []column, cell func(column) string) string {
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = cell(c)
	}
	return strings.Join(cells, " ")
}

// compact writes a number in at most five characters: 950, 1.2k, 45k, 3.1M.
func compact(n float64) string {
	switch {
	case n < 999.5:
		return fmt.Sprintf("%.0f", n)
	case n < 9_950:
		return fmt.Sprintf("%.1fk", n/1e3)
	case n < 999_500:
		return fmt.Sprintf("%.0fk", n/1e3)
	case n < 9_950_000:
		return fmt.Sprintf("%.1fM", n/1e6)
	case n < 999_500_000:
		return fmt.Sprintf("%.0fM", n/1e6)
	}
	return fmt.Sprintf("%.1fG", math.Min(n, 9.9e11)/1e9)
}
