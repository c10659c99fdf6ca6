package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"mete/bench/load"
	"mete/bench/overhead"
	"mete/bench/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// result makes the file of a real run.
func result(t *testing.T, dir, name, label string) string {
	t.Helper()
	replica, err := sim.Start(sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = replica.Close() }()
	target, err := load.ParseTarget(replica.URL() + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	requests, err := load.Synthetic(1, 2, load.Lengths{Prompt: 8, Answer: 4}, load.Shape{Model: "sim"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := load.Run(t.Context(), load.Options{Target: target, Requests: requests, Concurrency: 2, Count: 20})
	if err != nil {
		t.Fatal(err)
	}
	r.Fields["label"] = label
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, dir, name, string(b))
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// fromVLLM is what vllm bench serve writes, shortened.
const fromVLLM = `{"date":"20260801-120000","backend":"openai-chat","label":"theirs","request_rate":"inf","max_concurrency":null,"duration":10.0,
"completed":100,"failed":0,"request_throughput":10.0,"request_goodput":null,"output_throughput":1280.0,
"mean_ttft_ms":200.0,"median_ttft_ms":150.0,"std_ttft_ms":20.0,"p99_ttft_ms":400.0,"mean_itl_ms":12.0,"median_itl_ms":11.0,"p99_itl_ms":30.0}`

func TestResultsOfBothToolsAreCompared(t *testing.T) {
	dir := t.TempDir()
	groups, err := Read([]string{
		write(t, dir, "a.json", fromVLLM), result(t, dir, "b1.json", "ours"), result(t, dir, "b2.json", "ours"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) != 2 || groups[0].Label != "theirs" || len(groups[1].Runs) != 2 {
		t.Fatalf("groups %+v", groups)
	}
	table := Table(groups)
	for _, want := range []string{"| | theirs (1) | ours (2) | ratio |", "| completed | 100 | 20 (20–20) | 0.200 |", "| median_ttft_ms | 150 | "} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if strings.Contains(table, "request_goodput") {
		t.Error("a row in which nobody has a number")
	}
	if n := len(groups[1].Runs[0].Curves["ttft"]); n < 20 {
		t.Errorf("a distribution of %d points", n)
	}
}

func TestRepetitionsAloneAreComparedByFile(t *testing.T) {
	dir := t.TempDir()
	groups, err := Read([]string{write(t, dir, "a.json", fromVLLM), write(t, dir, "b.json", fromVLLM)})
	if err != nil || len(groups) != 2 || groups[1].Label != "b" {
		t.Errorf("groups %+v, %v", groups, err)
	}
}

func TestWhatIsNoResultIsRefused(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]error{`{"x":1}`: errNoResult, `[]`: nil, `{"completed":1,"histograms":{"ttft":"nonsense"}}`: nil} {
		_, err := Read([]string{write(t, dir, "x.json", text)})
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Read([]string{filepath.Join(dir, "missing.json")}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestPicturesAreWellFormed(t *testing.T) {
	dir := t.TempDir()
	groups, err := Read([]string{write(t, dir, "a.json", strings.Replace(fromVLLM, "theirs", "<b>&", 1)), result(t, dir, "b.json", "ours")})
	if err != nil {
		t.Fatal(err)
	}
	pictures := Pictures(groups)
	if len(pictures) < 6 {
		t.Fatalf("%d pictures", len(pictures))
	}
	for _, named := range pictures {
		checkXML(t, named.Name, named.Picture.SVG())
		var b bytes.Buffer
		if err := named.Picture.PNG(&b); err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(&b)
		if err != nil || img.Bounds().Dx() != chartWidth {
			t.Errorf("%s: %v", named.Name, err)
		}
		inked := 0
		for y := range chartHeight {
			for x := range chartWidth {
				if r, g, b, _ := img.At(x, y).RGBA(); r+g+b < 3*0xffff {
					inked++
				}
			}
		}
		if inked < 1000 {
			t.Errorf("%s: %d pixels of ink", named.Name, inked)
		}
	}
}

func checkXML(t *testing.T, name, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
	}
}

func TestPageLoadsNothing(t *testing.T) {
	dir := t.TempDir()
	groups, err := Read([]string{write(t, dir, "a.json", fromVLLM), result(t, dir, "b.json", "</script><b>")})
	if err != nil {
		t.Fatal(err)
	}
	page := string(Page(groups))
	for _, never := range []string{"src=", "href=", "<b>", "url("} {
		if strings.Contains(page, never) {
			t.Errorf("%q in the page", never)
		}
	}
	if strings.Count(page, "<svg") < 6 || !strings.Contains(page, "median_ttft_ms") {
		t.Error("the page lacks pictures or the table")
	}
}

func TestOverheadIsDrawn(t *testing.T) {
	r := &overhead.Result{Figures: []overhead.Figure{{ID: "short.cpu", Title: "CPU", Unit: "µs", Values: map[string][]float64{"mete": {30, 34}}}}}
	r.Samples = []overhead.Sample{{Experiment: "short", Proxy: "mete"}}
	if page := string(Overhead(r)); strings.Count(page, "<svg") != 1 || !strings.Contains(page, "CPU") {
		t.Error(page)
	}
}

func TestAxisTicksAreRound(t *testing.T) {
	for _, row := range []struct {
		name string
		axis axis
		want []float64
	}{
		{"from nothing", axis{from: 0, to: 10}, []float64{0, 2, 4, 6, 8, 10}},
		{"small", axis{from: 0, to: 0.5}, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5}},
		{"below nothing", axis{from: -4, to: 4}, []float64{-4, -2, 0, 2, 4}},
		{"logarithmic", axis{from: 1, to: 100, log: true}, []float64{1, 2, 5, 10, 20, 50, 100}},
	} {
		got := row.axis.ticks()
		same := len(got) == len(row.want)
		for i := range row.want {
			same = same && math.Abs(got[i]-row.want[i]) < 1e-9
		}
		if !same {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}
