package console

import (
	"fmt"
	"time"
)

// chart is bars over time, drawn to fill whatever width there is. Each bar is a
// stack of up to two parts.
type chart struct {
	Label  string // what a screen reader says instead
	Bars   []bar
	Most   int64
	From   string
	Middle string
	To     string
	Legend []string
}

// bar has its measures in the units of the drawing, which is as wide as it has
// bars, times barWidth, and chartHeight high.
type bar struct {
	X, LowY, LowHeight, HighY, HighHeight float64
	Title                                 string
}

const (
	barWidth    = 10.0
	barGap      = 2.0
	chartHeight = 100.0
)

// Width and Height are those of the drawing.
func (c chart) Width() float64  { return float64(len(c.Bars)) * barWidth }
func (c chart) Height() float64 { return chartHeight }

// BarWidth is that of every bar.
func (c chart) BarWidth() float64 { return barWidth - barGap }

// column is what one bar stands for.
type column struct {
	title     string
	low, high int64 // the two parts, from below
}

func newChart(label string, columns []column) chart {
	c := chart{Label: label, Bars: make([]bar, len(columns))}
	for _, column := range columns {
		c.Most = max(c.Most, column.low+column.high)
	}
	for i, column := range columns {
		low := c.height(column.low)
		high := c.height(column.low+column.high) - low
		c.Bars[i] = bar{
			X: float64(i)*barWidth + barGap/2, LowY: chartHeight - low, LowHeight: low,
			HighY: chartHeight - low - high, HighHeight: high, Title: column.title,
		}
	}
	return c
}

// height keeps a value that is not zero visible.
func (c chart) height(value int64) float64 {
	if value == 0 || c.Most == 0 {
		return 0
	}
	return max(1.5, chartHeight*float64(value)/float64(c.Most))
}

// span is a time in equal steps, whose last holds now.
type span struct {
	start time.Time
	step  time.Duration
	n     int
}

func lastDay(now time.Time) span {
	return span{start: now.UTC().Truncate(time.Hour).Add(-23 * time.Hour), step: time.Hour, n: 24}
}

func lastDays(now time.Time, n int) span {
	day := now.UTC().Truncate(24 * time.Hour)
	return span{start: day.AddDate(0, 0, 1-n), step: 24 * time.Hour, n: n}
}

// index is the step that holds t, and whether any does.
func (s span) index(t time.Time) (int, bool) {
	i := int(t.Sub(s.start) / s.step)
	return i, !t.Before(s.start) && i < s.n
}

func (s span) unit() string {
	if s.step == time.Hour {
		return "hour"
	}
	return "day"
}

func (s span) title(i int) string {
	t := s.start.Add(time.Duration(i) * s.step)
	if s.step == time.Hour {
		return t.Format("2 Jan, 15:04")
	}
	return t.Format("2 Jan")
}

// usageChart draws the tokens of rows, prompt below and answer above.
func usageChart(label string, s span, rows []UsageRow) chart {
	columns := make([]column, s.n)
	for _, row := range rows {
		if i, ok := s.index(row.Hour); ok {
			columns[i].low += row.PromptTokens
			columns[i].high += row.CompletedTokens
		}
	}
	for i := range columns {
		columns[i].title = fmt.Sprintf("%s UTC: %s prompt and %s answer tokens", s.title(i), Commas(columns[i].low), Commas(columns[i].high))
	}
	c := newChart(label, columns)
	c.Legend = []string{"Prompt tokens", "Answer tokens"}
	c.From, c.Middle, c.To = s.title(0), s.title(s.n/2), s.title(s.n-1)
	return c
}

// requestChart draws requests, those that were refused on top.
func requestChart(label string, s span, rows []UsageRow) chart {
	columns := make([]column, s.n)
	for _, row := range rows {
		if i, ok := s.index(row.Hour); ok {
			columns[i].low += row.Requests
			columns[i].high += row.Refused
		}
	}
	for i := range columns {
		columns[i].title = fmt.Sprintf("%s UTC: %s requests, %s refused", s.title(i), Commas(columns[i].low), Commas(columns[i].high))
	}
	c := newChart(label, columns)
	c.Legend = []string{"Requests", "Refused"}
	c.From, c.Middle, c.To = s.title(0), s.title(s.n/2), s.title(s.n-1)
	return c
}

// totals are sums over rows.
type totals struct{ Requests, Refused, Prompt, Completed int64 }

// Tokens is all tokens.
func (t totals) Tokens() int64 { return t.Prompt + t.Completed }

func (t *totals) add(row UsageRow) {
	t.Requests += row.Requests
	t.Refused += row.Refused
	t.Prompt += row.PromptTokens
	t.Completed += row.CompletedTokens
}
