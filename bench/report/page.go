package report

import (
	"bytes"
	"encoding/json"
	"html/template"
	"math"
	"strings"

	"mete/bench/overhead"
)

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title>
<style>
body { font: 15px/1.5 sans-serif; max-width: 84em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 } td, th { border: 1px solid #ccc; padding: .25em .7em; text-align: right }
td:first-child, th:first-child { text-align: left } svg { max-width: 100%; height: auto; margin: .5em }
</style></head><body>
<h1>{{.Title}}</h1>
{{range .Notes}}<p>{{.}}</p>{{end}}
<table>{{range $i, $row := .Rows}}<tr>{{range $row}}{{if $i}}<td>{{.}}</td>{{else}}<th>{{.}}</th>{{end}}{{end}}</tr>
{{end}}</table>
{{range .Pictures}}{{.}}{{end}}
<script type="application/json" id="data">{{.Data}}</script>
</body></html>
`))

type content struct {
	Title    string
	Notes    []string
	Rows     [][]string
	Pictures []template.HTML
	Data     any
}

// Page is the comparison as one HTML file that loads nothing.
func Page(groups []Group) []byte {
	c := content{Title: "mete bench: comparison", Rows: cells(Table(groups)), Data: groups}
	c.Notes = []string{"Medians over the runs of a label, with their range; ratios are to the first label. Curves are of each label's first run."}
	for _, named := range Pictures(groups) {
		c.add(named.Picture)
	}
	return c.render()
}

// Overhead is the page of a comparison of proxies.
func Overhead(r *overhead.Result) []byte {
	c := content{Title: "What a proxy costs", Rows: cells(r.Table()), Data: r}
	c.Notes = append([]string{r.Date + ", " + r.Machine}, r.Versions...)
	c.Notes = append(c.Notes, "Bars are medians over the rounds, whiskers their range.")
	for _, named := range OverheadPictures(r) {
		c.add(named.Picture)
	}
	return c.render()
}

// OverheadPictures draws a figure each.
func OverheadPictures(r *overhead.Result) (pictures []Named) {
	for _, f := range r.Figures {
		var bars []bar
		for _, proxy := range r.Proxies() {
			if median, least, most := spread(f.Values[proxy]); !math.IsNaN(median) {
				bars = append(bars, bar{proxy, median, least, most})
			}
		}
		pictures = append(pictures, Named{f.ID, barChart(f.Title, f.Unit, bars)})
	}
	return pictures
}

func (c *content) add(p *Picture) {
	c.Pictures = append(c.Pictures, template.HTML(p.SVG())) //nolint:gosec // made by us, its texts escaped
}

func (c *content) render() []byte {
	var b bytes.Buffer
	if err := page.Execute(&b, c); err != nil {
		return []byte(template.HTMLEscapeString(err.Error())) // the template is fixed and its data plain
	}
	return b.Bytes()
}

// cells takes a Markdown table apart.
func cells(table string) (rows [][]string) {
	for _, line := range strings.Split(strings.TrimSpace(table), "\n") {
		if strings.HasPrefix(line, "|---") {
			continue
		}
		var row []string
		for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
			row = append(row, strings.TrimSpace(cell))
		}
		rows = append(rows, row)
	}
	return rows
}

// MarshalJSON makes a point a pair.
func (p point) MarshalJSON() ([]byte, error) { return json.Marshal([2]float64{p.x, p.y}) }
