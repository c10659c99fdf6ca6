package load

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"mete/bench/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func replica(t testing.TB, cfg sim.Config) (Target, *sim.Replica) {
	t.Helper()
	r, err := sim.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	target, err := ParseTarget(r.URL() + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	return target, r
}

// synthetic makes requests that know what a replica with cfg answers.
func synthetic(t testing.TB, cfg sim.Config, n, answer int, s Shape) []*Request {
	t.Helper()
	s.Model, s.IgnoreEOS = "sim", true
	requests, err := Synthetic(1, n, Lengths{Prompt: 12, Answer: answer}, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range requests {
		if q.Expect, err = Expect(cfg, "/v1"+q.Path, q.Body); err != nil {
			t.Fatal(err)
		}
	}
	return requests
}

func run(t testing.TB, o Options) *Result {
	t.Helper()
	o.Timeout = 20 * time.Second
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
