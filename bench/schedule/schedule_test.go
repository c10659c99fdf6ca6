package schedule

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mete/bench/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func setup(t testing.TB, workload, policy string, load float64) Setup {
	t.Helper()
	w, err := WorkloadNamed(workload)
	if err != nil {
		t.Fatal(err)
	}
	p, err := sim.NamedProfile("llama-3.1-8b-h100")
	if err != nil {
		t.Fatal(err)
	}
	return Setup{Workload: w, Policy: policy, Load: load, Replicas: 4, Seed: 1, Warm: 2 * time.Second, Window: 9 * time.Second, Profile: p}
}

func run(t testing.TB, s Setup) Metrics {
	t.Helper()
	m, err := Run(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestARunDependsOnItsSetupAlone(t *testing.T) {
	var sides []Side
	for _, w := range Workloads() {
		sides = append(sides, Side{w.Name, Mete})
	}
	for _, p := range Policies() {
		sides = append(sides, Side{"multi-turn", p})
	}
	for _, side := range sides {
		s := setup(t, side.Workload, side.Policy, 12)
		s.Replicas, s.Workload.churn = 2, min(s.Workload.churn, 3*time.Second)
		first, second := run(t, s), run(t, s)
		if !reflect.DeepEqual(first, second) {
			t.Errorf("%v: %+v, then %+v", side, first, second)
		}
		s.Seed = 2
		if other := run(t, s); reflect.DeepEqual(first, other) {
			t.Errorf("%v: another seed gives the same", side)
		}
	}
}

func TestEveryPolicyMeetsTheSameRequests(t *testing.T) {
	for _, name := range []string{"uniform", "heavy-tailed", "flood"} {
		want := run(t, setup(t, name, RoundRobin, 8))
		for _, p := range Policies() {
			if got := run(t, setup(t, name, p, 8)); got.Requests != want.Requests {
				t.Errorf("%s on %s: %d requests, round robin had %d", p, name, got.Requests, want.Requests)
			}
		}
	}
}

func TestAnOverloadedPoolIsNotSteadyAndCountsWhatWaits(t *testing.T) {
	s := setup(t, "uniform", RoundRobin, 600)
	m := run(t, s)
	if m.Stable || m.Unanswered < m.Requests/5 || m.TTFT.P99 < 1000 {
		t.Errorf("at twice what it can bear: %+v", m)
	}
	s.Load = 40
	if m := run(t, s); !m.Stable || m.Unanswered > 10 || m.TTFT.P99 > 200 || m.HitRate != 0 {
		t.Errorf("nearly idle: %+v", m)
	}
}

func TestChatsOfOneApplicationShareTheBeginning(t *testing.T) {
	a, b := stem{shared: 1, sharedTokens: 40, own: 2}, stem{shared: 1, sharedTokens: 40, own: 3}
	x, y := a.hashes(100, 16), b.hashes(100, 16)
	if len(x) != 6 || x[0] != y[0] || x[1] != y[1] || x[2] == y[2] || x[5] == y[5] {
		t.Errorf("%x and %x: want 6 blocks, the first two alike", x, y)
	}
	if longer := a.hashes(120, 16); !reflect.DeepEqual(longer[:6], x) {
		t.Errorf("the next turn begins %x, not %x", longer[:6], x)
	}
}

func TestARingMovesOnlyWhatItMust(t *testing.T) {
	all := []*node{{url: "http://a"}, {url: "http://b"}, {url: "http://c"}, {url: "http://d"}}
	whole, less := newRing(all), newRing(all[:3])
	room := func(*node) bool { return true }
	count := map[*node]int{}
	for k := range uint64(4000) {
		was, is := whole.walk(mix(k), room), less.walk(mix(k), room)
		if was != is && was != all[3] {
			t.Fatalf("key %d moved from %s to %s, which both stay", k, was.url, is.url)
		}
		count[was]++
	}
	for n, c := range count {
		if c < 700 || c > 1300 {
			t.Errorf("%s has %d of 4000 keys", n.url, c)
		}
	}
	if n := whole.walk(7, func(n *node) bool { return n == all[2] }); n != all[2] {
		t.Errorf("walked to %s, want the only one with room", n.url)
	}
}

func TestFairSharesFillFromTheBottom(t *testing.T) {
	for _, row := range []struct {
		name  string
		asked []float64
		total float64
		want  []float64
	}{
		{"enough for all", []float64{1, 2, 3}, 6, []float64{1, 2, 3}},
		{"one asks too much", []float64{10, 1, 1}, 6, []float64{4, 1, 1}},
		{"all ask too much", []float64{9, 9, 9}, 6, []float64{2, 2, 2}},
	} {
		if got := fairShares(row.asked, row.total); !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

func TestLengthsHaveTheirPublishedMedians(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, row := range map[string]struct {
		draw lengths
		want float64
	}{"prompts": {lognormal(1020, 1, 16000), 1020}, "outputs": {azureOutput, 129}} {
		var values []float64
		for range 20000 {
			values = append(values, float64(row.draw(random)))
		}
		if got, _, _ := Median(values); math.Abs(got/row.want-1) > 0.05 {
			t.Errorf("%s: median %v, want %v", name, got, row.want)
		}
	}
}

func TestTheSearchFindsTheHighestLoadThatHolds(t *testing.T) {
	for _, guess := range []float64{1, 40, 900} {
		got, err := highest(guess, func(load float64) (bool, error) { return load <= 100, nil })
		if err != nil || got > 100 || got < 97 {
			t.Errorf("from %v: %v, %v", guess, got, err)
		}
	}
}

func TestABoundTellsBetterFromWorse(t *testing.T) {
	r := &Result{Rows: []Row{{ID: "chat-ttft", Points: []Point{{Ratio: 0.2}}}, {ID: "churn", AtLeast: true, Points: []Point{{Ratio: 0.9}}}}}
	for _, row := range []struct {
		name   string
		bounds Bounds
		want   string
	}{
		{"kept", Bounds{"chat-ttft": 0.25, "churn": 0.85}, ""},
		{"too high", Bounds{"chat-ttft": 0.15}, "chat-ttft: 0.200 is worse"},
		{"too low", Bounds{"churn": 0.95}, "churn: 0.900 is worse"},
		{"not measured", Bounds{"slow": 1}, "none of the bounded rows"},
	} {
		err := row.bounds.Check(r)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}
