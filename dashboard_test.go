package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

const (
	alertsFile    = "deploy/prometheus/alerts.yaml"
	dashboardFile = "deploy/grafana/mete.json"
)

// orSkip skips a test whose program is missing, unless nothing may be skipped.
func orSkip(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%v: make setup installs it", err)
	}
	t.Skip(err)
	return ""
}

// TestEveryAlertFiresOnItsFault lets promtool play each fault, and a time in
// which nothing is wrong.
func TestEveryAlertFiresOnItsFault(t *testing.T) {
	promtool := orSkip(t, "promtool")
	succeeds(t, nil, promtool, "check", "rules", alertsFile)
	succeeds(t, nil, promtool, "test", "rules", "deploy/prometheus/alerts_test.yaml")
	tests := read(t, "deploy/prometheus/alerts_test.yaml")
	operations := strings.ToLower(read(t, "docs/operations.md"))
	for _, a := range shippedAlerts(t) {
		if !strings.Contains(tests, "\n  - name: "+a.Alert+"\n") {
			t.Errorf("%s: no fault is played for it", a.Alert)
		}
		if !strings.Contains(operations, "\n### "+strings.ToLower(a.Alert)+"\n") {
			t.Errorf("%s is not explained in docs/operations.md", a.Alert)
		}
		if a.Annotations.Runbook != "docs/operations.md#"+strings.ToLower(a.Alert) || a.Annotations.Summary == "" {
			t.Errorf("%s: annotations %+v", a.Alert, a.Annotations)
		}
	}
}

type alert struct {
	Alert, Expr string
	Annotations struct{ Summary, Runbook string }
}

func shippedAlerts(t *testing.T) []alert {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal([]byte(read(t, alertsFile)), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) < 10 {
		t.Fatal("the alerts are not where they are looked for")
	}
	return file.Groups[0].Rules
}

// shippedQueries returns the dashboard's queries by their panel, with its
// variables as they are when everything is shown.
func shippedQueries(t *testing.T) map[string]string {
	t.Helper()
	var board struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &board); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$instance", ".*", "$pool", ".*", "$model", ".*", "$__rate_interval", "30s")
	queries := map[string]string{}
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			queries[fmt.Sprintf("%s (%d%s)", panel.Title, panel.ID, target.RefID)] = variables.Replace(target.Expr)
		}
	}
	if len(queries) < 30 {
		t.Fatalf("the dashboard has %d queries", len(queries))
	}
	return queries
}

var (
	seriesName = regexp.MustCompile(`\b(?:mete|process)_[a-z0-9_]+`)
	matcher    = regexp.MustCompile(`([a-z]+)(=~|!=|=)"([^"]*)"`)
)

// TestDashboardAndAlertsFindTheirSeries has a real Prometheus scrape two
// gateways in mixed traffic: every query of the dashboard returns data, and
// every series of an alert is there, with the labels that it goes by.
func TestDashboardAndAlertsFindTheirSeries(t *testing.T) {
	orSkip(t, "prometheus")
	s := startSystem(t, nil)
	p := startPrometheus(t, s)
	s.mixedTraffic() // a counter that appears at 3 has not risen for Prometheus
	p.awaitScrape()
	s.mixedTrafficAgain()
	p.awaitScrape()
	queries := shippedQueries(t)
	for deadline := time.Now().Add(20 * time.Second); len(queries) > 0 && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		maps.DeleteFunc(queries, func(_, query string) bool { return p.has(query) })
	}
	for panel, query := range queries {
		t.Errorf("%s: no data for %s", panel, query)
	}
	for _, a := range shippedAlerts(t) {
		for _, name := range seriesName.FindAllString(a.Expr, -1) {
			if !p.has(name) {
				t.Errorf("%s looks at %s, which no gateway has", a.Alert, name)
			}
		}
		for _, m := range matcher.FindAllStringSubmatch(a.Expr, -1) {
			p.wantLabel(a, m[1], strings.Split(m[3], "|"))
		}
	}
}

// mixedTrafficAgain is as much of it as can be had twice.
func (s *system) mixedTrafficAgain() {
	for gateway := range s.gateways {
		s.successes(gateway)
		s.want(401, gateway, "POST", chatPath, "", chatOf("mete"))
		s.want(429, gateway, "POST", chatPath, s.tight, chatOf("mete"))
		s.replicaFaults(gateway)
		s.leave(gateway)
	}
}

// scraper is a running Prometheus.
type scraper struct {
	*testing.T
	url string
}

// startPrometheus starts one that scrapes the gateways twice a second.
func startPrometheus(t *testing.T, s *system) *scraper {
	t.Helper()
	dir, address := t.TempDir(), deadAddress(t)
	targets := []string{s.gateways[0].admin.Addr().String(), s.gateways[1].admin.Addr().String()}
	rules, _ := filepath.Abs(alertsFile)
	text := fmt.Sprintf("global: {scrape_interval: 500ms, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs: [{job_name: mete, static_configs: [{targets: [%q, %q]}]}]\n", rules, targets[0], targets[1])
	if err := os.WriteFile(dir+"/prometheus.yml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("prometheus", "--config.file="+dir+"/prometheus.yml", "--storage.tsdb.path="+dir+"/data", "--web.listen-address="+address, "--log.level=error")
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	p := &scraper{T: t, url: "http://" + address}
	waitUntil(t, func() bool { return p.count(`up{job="mete"} == 1`) == 2 })
	return p
}

// query returns the result of an instant query; none while there is none.
func (p *scraper) query(expr string) (result []struct {
	Metric map[string]string
	Value  []any
}) {
	p.Helper()
	response, err := http.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return nil // it is starting
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusServiceUnavailable {
		return nil // likewise
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		p.Fatal(err)
	}
	if answer.Status != "success" {
		p.Fatalf("%s: %s", expr, answer.Error)
	}
	var data struct{ Result json.RawMessage }
	if err := json.Unmarshal(answer.Data, &data); err != nil {
		p.Fatal(err)
	}
	if err := json.Unmarshal(data.Result, &result); err != nil {
		p.Fatal(err)
	}
	return result
}

func (p *scraper) count(expr string) int { return len(p.query(expr)) }

// has reports whether an expression has a value that is a number.
func (p *scraper) has(expr string) bool {
	return slices.ContainsFunc(p.query(expr), func(r struct {
		Metric map[string]string
		Value  []any
	}) bool {
		return len(r.Value) == 2 && r.Value[1] != "NaN"
	})
}

// awaitScrape waits until every gateway was scraped twice from now on.
func (p *scraper) awaitScrape() {
	p.Helper()
	began := time.Now()
	waitUntil(p.T, func() bool {
		return p.count(fmt.Sprintf(`timestamp(mete_redis_up) > %f`, float64(began.Add(time.Second).UnixMilli())/1000)) == 2
	})
}

// wantLabel expects a series of the alert's to have one of the values.
func (p *scraper) wantLabel(a alert, label string, values []string) {
	p.Helper()
	for _, name := range append(seriesName.FindAllString(a.Expr, -1), "up") {
		if p.count(fmt.Sprintf(`%s{%s=~%q}`, name, label, strings.Join(values, "|"))) > 0 {
			return
		}
	}
	p.Errorf("%s: no series has %s=%q", a.Alert, label, values)
}
