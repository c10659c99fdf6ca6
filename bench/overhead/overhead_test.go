package overhead

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// twoRounds is a result in which the gateway costs 1.5 and 1.7 times nginx.
func twoRounds() *Result {
	r := &Result{Settings: Settings{Rounds: 2, ManyStreams: 8000}}
	add := func(round int, experiment, proxy string, values map[string]float64) {
		r.add(Sample{Round: round, Experiment: experiment, Proxy: proxy, Values: values})
	}
	for round, cpu := range []float64{30, 34} {
		add(round, "short", gate, map[string]float64{"cpu_us": cpu})
		add(round, "short", nginx, map[string]float64{"cpu_us": 20})
		add(round, "prompt", gate, map[string]float64{"cpu_us": cpu + 130})
		add(round, "prompt", nginx, map[string]float64{"cpu_us": 120})
		add(round, "ttft", direct, map[string]float64{"p50": 100, "p99": 1000})
		add(round, "ttft", nginx, map[string]float64{"p50": 140, "p99": 900})
		add(round, "ttft", gate, map[string]float64{"p50": 220, "p99": 1200, "redis_p50": 60, "redis_p99": 80})
		add(round, "many", gate, map[string]float64{"cpu_us": 20, "kib_per_stream": 36})
		add(round, "many", nginx, map[string]float64{"cpu_us": 16, "kib_per_stream": 18})
		add(round, "big", gate, map[string]float64{"cpu_us": 22})
	}
	return r
}

func TestFiguresAreRatiosWithinARound(t *testing.T) {
	r := twoRounds()
	got := map[string]Figure{}
	for _, f := range r.Figures {
		got[f.ID] = f
	}
	for id, want := range map[string][]float64{
		"short.cpu": {1.5, 1.7}, "prompt.cpu": {1.3, 1.3}, "ttft.p50": {1.2, 1.2}, "many.memory": {2, 2}, "many.cpu": {1.25, 1.25}, "big.cpu": {1.1, 1.1},
	} {
		ratios := got[id].Ratios[gate]
		for i := range want {
			if len(ratios) != 2 || math.Abs(ratios[i]-want[i]) > 1e-9 {
				t.Errorf("%s: ratios %v, want %v", id, ratios, want)
				break
			}
		}
	}
	// nginx was faster than no proxy at all: noise, of which there is no ratio.
	if f := got["ttft.p99"]; len(f.Ratios[gate]) != 0 || f.Values[gate][0] != 200 {
		t.Errorf("ttft.p99: %+v", f)
	}
	if _, there := got["stream.cpu"]; there {
		t.Error("a figure that was not measured")
	}
}

func TestTableHasMedianAndRange(t *testing.T) {
	table := twoRounds().Table()
	for _, want := range []string{
		"| | nginx | mete | mete's ratio (range) | aim |",
		"| CPU per short request, µs | 20.0 | 32.0 | 1.60 (1.50–1.70) | ≤ 2.00 |",
		"of nginx + a Redis round trip",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}

func TestBoundsFailLoudly(t *testing.T) {
	r := twoRounds()
	for _, row := range []struct {
		name   string
		bounds Bounds
		want   string
	}{
		{"within the bound", Bounds{"short.cpu": 1.6}, ""},
		{"worse than the bound", Bounds{"short.cpu": 1.59, "big.cpu": 1.2}, "CPU per short request: 1.60 times nginx (1.50 to 1.70), more than the 1.59 that is accepted"},
		{"one measured, one not", Bounds{"short.cpu": 1.6, "stream.cpu": 1}, ""},
		{"none measured", Bounds{"stream.cpu": 1}, "none of the bounded figures was measured"},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := row.bounds.Check(r)
			if row.want == "" && err != nil || row.want != "" && (err == nil || err.Error() != row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

func TestBoundsAreReadStrictly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bounds.json")
	for text, want := range map[string]string{`{"short.cpu": 2}`: "", `{"shrt.cpu": 2}`: "no figure", `[]`: "cannot unmarshal"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadBounds(path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := ReadBounds("../bounds.json"); err != nil {
		t.Error("the committed bounds:", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, spoil := range map[string]func(*Options){
		"an unknown experiment": func(o *Options) { o.Only = []string{"nonsense"} },
		"no program":            func(o *Options) { o.Command = nil },
		"no round":              func(o *Options) { o.Rounds = 0 },
		"no replica":            func(o *Options) { o.Replicas = 0 },
	} {
		o := Standard()
		o.Command = []string{"x"}
		spoil(&o)
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestReplicasEndWithTheirInput(t *testing.T) {
	input, keep := io.Pipe()
	output, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- ServeReplicas(context.Background(), 1, input, w) }()
	var line [64]byte
	n, err := output.Read(line[:])
	if err != nil || !strings.HasPrefix(string(line[:n]), "http://127.0.0.1:") {
		t.Fatalf("%q, %v", line[:n], err)
	}
	_ = keep.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAProcessIsMeasuredAndEnded(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	p, err := launch(t.TempDir(), "busy", place{core: -1}, []string{"GREETING=hello"}, "sh", "-c", `echo $GREETING; while :; do :; done`)
	if err != nil {
		t.Fatal(err)
	}
	ended := false
	defer func() {
		if !ended {
			p.end()
		}
	}()
	if err := await(t.Context(), p, func() bool {
		d, err := p.cpu()
		return err == nil && d > 20*time.Millisecond && p.tail() == "hello"
	}); err != nil {
		t.Fatal(err)
	}
	if n, err := p.resident(); err != nil || n < 100<<10 {
		t.Errorf("resident: %d, %v", n, err)
	}
	p.end()
	ended = true
	if _, err := p.cpu(); err == nil {
		t.Error("the processor time of an ended process")
	}
}

func TestALaunchThatEndsAtOnceSaysWhy(t *testing.T) {
	l := &lab{dir: t.TempDir()}
	_, err := l.launch(t.Context(), "x", place{core: -1}, "127.0.0.1:1", "sh", "-c", "echo no such thing; exit 3")
	if err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Error(err)
	}
	for _, p := range l.processes {
		p.end()
	}
}

func TestRoundTripsAreTimed(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		buf := make([]byte, 64)
		for range 3 {
			if _, err := conn.Read(buf); err != nil {
				return
			}
			_, _ = conn.Write([]byte("+PONG\r\n"))
		}
		cancel()
	}()
	trips := <-pingWhile(ctx, ln.Addr().String())
	if len(trips) < 3 || trips.quantile(0.5) <= 0 || trips.quantile(1) < trips.quantile(0) {
		t.Errorf("trips %v", trips)
	}
	if roundTrips(nil).quantile(0.5) != 0 {
		t.Error("no trips have a quantile")
	}
}

func TestResultMarshals(t *testing.T) {
	b, err := json.Marshal(twoRounds())
	if err != nil || !strings.Contains(string(b), `"experiment":"short"`) {
		t.Errorf("%v: %s", err, b)
	}
}
