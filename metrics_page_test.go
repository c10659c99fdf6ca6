package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"mete/config"
	"mete/proxy/meter"
)

var update = flag.Bool("update", false, "write the generated part of docs/metrics.md anew")

const (
	metricsPage = "docs/metrics.md"
	pageMark    = "<!-- What follows is generated: go test -run TestMetricsPage -update . -->\n"
)

// metricSections are the sections of the page, by how names begin; the first
// that fits counts.
var metricSections = []struct{ prefix, title string }{
	{"mete_model_", "Autoscaling signals"},
	{"mete_replica_", "Replicas"},
	{"mete_pool_", "Pools"},
	{"mete_limits_", "Limits"},
	{"mete_redis_", "Redis"},
	{"mete_source_", "Sources of replicas"},
	{"mete_consul_", "Sources of replicas"},
	{"mete_caller_", "Callers"},
	{"mete_config_", "The gateway itself"},
	{"mete_build_", "The gateway itself"},
	{"mete_log_", "The gateway itself"},
	{"mete_trace_", "The gateway itself"},
	{"mete_", "Requests"},
}

func TestMetricsPageListsWhatIsMade(t *testing.T) {
	t.Parallel()
	s := startSite(t, withPool(siteConfig(), func(p *config.Pool) { p.Replicas = []string{"http://" + deadAddress(t)} }))
	page, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	written, generated, _ := bytes.Cut(page, []byte(pageMark))
	want := tablesOf(s.book.Families())
	if *update {
		if err := os.WriteFile(metricsPage, []byte(string(written)+pageMark+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(generated) != want {
		t.Errorf("%s is out of date: go test -run TestMetricsPage -update .", metricsPage)
	}
}

func tablesOf(families []meter.Family) string {
	rows := map[string]*strings.Builder{"Requests": {}}
	titles := []string{"Requests"}
	for _, section := range metricSections {
		if rows[section.title] == nil {
			rows[section.title] = &strings.Builder{}
			titles = append(titles, section.title)
		}
	}
	for _, f := range families {
		for _, section := range metricSections {
			if strings.HasPrefix(f.Name, section.prefix) {
				fmt.Fprintf(rows[section.title], "| `%s` | %s | %s | %s |\n", f.Name, f.Type, strings.Join(f.Labels, ", "), f.Help)
				break
			}
		}
	}
	var page strings.Builder
	for _, title := range titles {
		if rows[title].Len() > 0 {
			fmt.Fprintf(&page, "\n## %s\n\n| name | type | labels | what it says |\n|---|---|---|---|\n%s", title, rows[title])
		}
	}
	page.WriteString("\n## Go and the process\n\nThe usual `go_*`, `process_*` and `promhttp_*` of Prometheus's client for Go.\n")
	return page.String()
}

// Prometheus's own linter knows the conventions for names and units.
func TestMetricNamesFollowPrometheusConventions(t *testing.T) {
	t.Parallel()
	s := startSite(t, withPool(siteConfig(), func(p *config.Pool) { p.Replicas = []string{"http://" + deadAddress(t)} }))
	problems, err := testutil.GatherAndLint(s.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
