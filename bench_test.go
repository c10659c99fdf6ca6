package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"mete/bench/overhead"
	"mete/bench/sim"
)

// benchChild makes this test binary behave as mete: a comparison starts the
// program under test as processes of its own.
const benchChild = "METE_TEST_BENCH_CHILD"

func init() {
	if os.Getenv(benchChild) == "" {
		return
	}
	if err := benchRoot().ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func benchRoot() *cobra.Command {
	root := &cobra.Command{Use: "mete", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(serveCommand(), benchCommand())
	return root
}

func runBench(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := benchRoot()
	root.SetOut(&out)
	root.SetArgs(append([]string{"bench"}, args...))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func benchReplica(t *testing.T) string {
	t.Helper()
	replica, err := sim.Start(sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = replica.Close() })
	return replica.URL() + "/v1"
}

func TestBenchMeasuresVerifiesAndReports(t *testing.T) {
	url, dir := benchReplica(t), t.TempDir()
	a, b := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json")
	for path, extra := range map[string][]string{
		a: {"--concurrency", "4", "--label", "closed", "--detailed"},
		b: {"--rate", "500", "--ramp-to", "1000", "--ramp-over", "100ms", "--label", "open"},
	} {
		args := append([]string{"--url", url, "--model", "sim", "--count", "50", "--output-len", "5", "--distinct", "7", "--verify",
			"--output", path, "--goodput", "ttft:60000", "--slo", "failed<=0", "--slo", "goodput_share>=1"}, extra...)
		out, err := runBench(t, args...)
		if err != nil || !strings.Contains(out, "byte for byte as expected: 50 of 50") {
			t.Fatalf("%v: %s", err, out)
		}
	}
	html := filepath.Join(dir, "page", "compare.html")
	out, err := runBench(t, "report", a, b, "--html", html, "--png", dir, "--svg", dir)
	if err != nil || !strings.Contains(out, "| | closed (1) | open (1) | ratio |") {
		t.Fatalf("%v: %s", err, out)
	}
	for _, path := range []string{html, filepath.Join(dir, "ttft.png"), filepath.Join(dir, "itl.svg")} {
		if info, err := os.Stat(path); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestBenchFailsOnAMissedObjective(t *testing.T) {
	out, err := runBench(t, "--url", benchReplica(t), "--model", "sim", "--count", "3", "--json", "--no-stream", "--slo", "median_e2el_ms<=0.000001")
	if err == nil || !strings.Contains(err.Error(), "median_e2el_ms is ") {
		t.Errorf("%v", err)
	}
	var result map[string]any
	if json.Unmarshal([]byte(out), &result) != nil || result["completed"] != 3.0 {
		t.Errorf("printed %s", out)
	}
}

func TestBenchRefusesWhatItCannotDo(t *testing.T) {
	for name, args := range map[string][]string{
		"a bad URL":             {"--url", "ftp://x"},
		"a bad goodput":         {"--goodput", "ttfb:1"},
		"a bad objective":       {"--slo", "failed"},
		"a negative rate":       {"--rate", "-1"},
		"a missing file":        {"--dataset", "/nonexistent.json"},
		"nothing to compare":    {"report", "/nonexistent.json"},
		"an unknown experiment": {"overhead", "--only", "nonsense"},
		"missing bounds":        {"overhead", "--check", "/nonexistent.json"},
		"a header without a :":  {"--header", "x"},
	} {
		if out, err := runBench(t, args...); err == nil {
			t.Errorf("%s: no error, %s", name, out)
		}
	}
}

// A small comparison with everything in it: the gateway with Redis, keys and
// limits, and the peers that are installed, each as a process of its own.
func TestBenchOverheadMeasuresRealProcesses(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("redis-server is not on PATH, and CI=true asks for it")
		}
		t.Skip("SKIPPED: redis-server is not on PATH")
	}
	t.Setenv(benchChild, "1")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	o := overhead.Standard()
	o.Command, o.Rounds, o.Window, o.Pin = []string{os.Args[0]}, 1, 400*time.Millisecond, false
	o.Replicas, o.Keys, o.Streams, o.ManyStreams, o.BigReplicas = 2, 20, 20, 40, 5
	o.ManyPace = 50 * time.Millisecond
	result, err := overhead.Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	measured := map[string]bool{}
	for _, s := range result.Samples {
		measured[s.Experiment+" "+s.Proxy] = true
		// A window this short may see no prompt of a megabyte to its end.
		if s.Values["per_second"] <= 0 && s.Experiment != "prompt" || s.Proxy != "direct" && s.Values["cpu_us"] <= 0 {
			t.Errorf("%s of %s: %v", s.Experiment, s.Proxy, s.Values)
		}
	}
	for _, want := range []string{"short mete", "stream mete", "stream direct", "ttft mete", "prompt mete", "many mete", "big mete"} {
		if !measured[want] {
			t.Errorf("no sample of %s", want)
		}
	}
	if !strings.Contains(result.Text(), "CPU per short request") {
		t.Error(result.Text())
	}
}
