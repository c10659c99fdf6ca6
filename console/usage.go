package console

import (
	"cmp"
	"encoding/csv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// usageView is the page of what was used.
type usageView struct {
	Days, By, Owner, Model string
	Tokens, Requests       chart
	All                    totals
	Lines                  []usageLine
	Models                 []string
	Query                  string // of the same in CSV
}

// usageLine is a sum over rows.
type usageLine struct {
	Name string
	totals
	Share int // percent of all tokens
}

// periods are the times that the page can show.
var periods = map[string]func(time.Time) span{
	"1":  lastDay,
	"7":  func(now time.Time) span { return lastDays(now, 7) },
	"30": func(now time.Time) span { return lastDays(now, 30) },
}

// groupings are by what the page can add up.
var groupings = map[string]func(UsageRow) string{
	"owner": func(r UsageRow) string { return r.Owner },
	"model": func(r UsageRow) string { return r.Model },
	"key":   func(r UsageRow) string { return r.Owner + " " + r.KeyID },
	"day":   func(r UsageRow) string { return r.Hour.UTC().Format("2006-01-02") },
}

func (v *visit) usagePage() error {
	view, s := v.usageQuery()
	rows, err := v.usageRows(&view, s)
	if err != nil {
		return err
	}
	for _, row := range rows {
		view.All.add(row)
	}
	view.Tokens = usageChart("Tokens by "+s.unit(), s, rows)
	view.Requests = requestChart("Requests by "+s.unit(), s, rows)
	view.Lines = usageLines(rows, groupings[view.By])
	if view.By == "day" {
		slices.SortFunc(view.Lines, func(a, b usageLine) int { return cmp.Compare(b.Name, a.Name) })
	}
	return v.views.render(v.w, http.StatusOK, "usage", v.frame("Usage", "usage", view))
}

// usageQuery reads what is asked for. What is not known is the default.
func (v *visit) usageQuery() (usageView, span) {
	query := v.r.URL.Query()
	view := usageView{Days: query.Get("days"), By: query.Get("by"), Owner: strings.TrimSpace(query.Get("owner")), Model: query.Get("model")}
	if periods[view.Days] == nil {
		view.Days = "1"
	}
	if groupings[view.By] == nil {
		view.By = "owner"
	}
	if !ownerShape.MatchString(view.Owner) {
		view.Owner = ""
	}
	query.Set("days", view.Days)
	query.Del("by")
	view.Query = query.Encode()
	return view, periods[view.Days](time.Now())
}

// usageRows also fills in the models that there are to choose from.
func (v *visit) usageRows(view *usageView, s span) ([]UsageRow, error) {
	rows, err := v.Usage(v.r.Context(), view.Owner, s.start, time.Now())
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, row := range rows {
		seen[row.Model] = true
	}
	for model := range seen {
		if model != "" {
			view.Models = append(view.Models, model)
		}
	}
	slices.Sort(view.Models)
	if view.Model != "" && seen[view.Model] {
		rows = slices.DeleteFunc(rows, func(r UsageRow) bool { return r.Model != view.Model })
	} else {
		view.Model = ""
	}
	return rows, nil
}

// usageLines adds rows up, the most tokens first.
func usageLines(rows []UsageRow, by func(UsageRow) string) []usageLine {
	sums, all := map[string]*usageLine{}, int64(0)
	for _, row := range rows {
		name := cmp.Or(by(row), "none")
		if sums[name] == nil {
			sums[name] = &usageLine{Name: name}
		}
		sums[name].add(row)
		all += row.Tokens()
	}
	lines := make([]usageLine, 0, len(sums))
	for _, line := range sums {
		if all > 0 {
			line.Share = int((line.Tokens()*100 + all/2) / all)
		}
		lines = append(lines, *line)
	}
	slices.SortFunc(lines, func(a, b usageLine) int {
		return cmp.Or(cmp.Compare(b.Tokens(), a.Tokens()), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Name, b.Name))
	})
	return lines
}

func (v *visit) usageCSV() error {
	view, s := v.usageQuery()
	rows, err := v.usageRows(&view, s)
	if err != nil {
		return err
	}
	out := v.startCSV("usage")
	_ = out.Write([]string{"hour", "owner", "key", "model", "requests", "refused", "prompt_tokens", "completion_tokens"})
	n := func(n int64) string { return strconv.FormatInt(n, 10) }
	for _, r := range rows {
		_ = out.Write([]string{
			r.Hour.UTC().Format(time.RFC3339), cell(r.Owner), cell(r.KeyID), cell(r.Model),
			n(r.Requests), n(r.Refused), n(r.PromptTokens), n(r.CompletedTokens),
		})
	}
	out.Flush()
	return nil // the client left, if anything: there is nobody to tell
}

func (v *visit) auditCSV() error {
	var events []Event // the log is bounded; an error must come before the first line
	for event, err := range v.audit.Events(v.r.Context(), "") {
		if err != nil {
			return err
		}
		events = append(events, event)
	}
	out := v.startCSV("audit")
	_ = out.Write([]string{"id", "time", "what", "who", "owner", "key", "address", "detail"})
	for _, e := range events {
		_ = out.Write([]string{
			e.ID, e.Time.Format(time.RFC3339Nano), cell(e.What), cell(e.Who), cell(e.Owner), cell(e.KeyID), cell(e.Address), cell(e.Detail),
		})
	}
	out.Flush()
	return nil
}

func (v *visit) startCSV(name string) *csv.Writer {
	v.w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	v.w.Header().Set("Content-Disposition", `attachment; filename="`+v.Service+"-"+name+"-"+time.Now().UTC().Format("2006-01-02")+`.csv"`)
	return csv.NewWriter(v.w)
}

// cell keeps spreadsheets from taking a text for a formula.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
