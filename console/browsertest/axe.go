package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// axeVersion is the checker's. Its script is fetched once and kept in the
// user's cache folder.
const axeVersion = "4.14.1"

// Axe is the accessibility checker's script.
type Axe struct{ script string }

// NewAxe fetches the checker with npm.
func NewAxe(t testing.TB) *Axe {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "mete-test", "axe-"+axeVersion)
	path := filepath.Join(dir, "node_modules", "axe-core", "axe.min.js")
	if script, err := os.ReadFile(path); err == nil {
		return &Axe{string(script)}
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		missing(t, "no npm on PATH, which fetches axe-core")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, npm, "install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "axe-core@"+axeVersion).CombinedOutput()
	if err != nil {
		missing(t, fmt.Sprintf("npm cannot fetch axe-core: %v\n%s", err, out))
	}
	script, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return &Axe{string(script)}
}

// Check returns the serious and critical findings of a page, and how many rules
// held.
func (a *Axe) Check(tab *Tab) (serious []string, passed int) {
	tab.t.Helper()
	Get(tab, chromedp.Evaluate[bool](a.script+"; true"))
	found := Get(tab, chromedp.Evaluate[string](`axe.run().then(r => JSON.stringify({passes: r.passes.length, violations: r.violations.map(v =>
		({impact: v.impact, id: v.id, help: v.help, nodes: v.nodes.map(n => n.html)}))}))`, chromedp.EvalAwaitPromise))
	var result struct {
		Passes     int
		Violations []struct {
			Impact, ID, Help string
			Nodes            []string
		}
	}
	if err := json.Unmarshal([]byte(found), &result); err != nil {
		tab.t.Fatalf("axe: %v", err)
	}
	for _, v := range result.Violations {
		text := fmt.Sprintf("%s: %s (%s): %s", v.Impact, v.ID, v.Help, strings.Join(v.Nodes, " | "))
		if v.Impact == "serious" || v.Impact == "critical" {
			serious = append(serious, text)
		} else {
			tab.t.Log(text)
		}
	}
	return serious, result.Passes
}
