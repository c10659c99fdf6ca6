package schedule

import (
	"testing"
	"time"
)

// TestTheChoiceIsWorthWhatItWas holds the key ratios, on a small pool and for a
// short time, at loads that everybody can bear. Simulated time has no noise: a
// ratio moves only when the code does. The bounds leave a tenth or more.
func TestTheChoiceIsWorthWhatItWas(t *testing.T) {
	if raced {
		t.Skip("one goroutine simulates, and the race detector makes it ten times as slow: make test runs this without")
	}
	o := Options{Replicas: 4, Seeds: 2, Warm: 25 * time.Second, Window: 30 * time.Second, Profile: "llama-3.1-8b-h100"}
	lab, err := NewLab(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name       string
		ours, base Side
		load       float64
		figure     func(Metrics) float64
		most       float64 // of the median ratio
		least      float64
	}{
		{"heavy-tailed lengths, p99, against the least in flight", Side{"heavy-tailed", Mete}, Side{"heavy-tailed", Least}, 36, tailTTFT, 0.7, 0},
		{"one replica at half speed, p99, against the least in flight", Side{"slow-replica", Mete}, Side{"slow-replica", Least}, 200, tailTTFT, 0.65, 0},
		{"chats, mean, against round robin", ours, robin, 20, meanTTFT, 0.5, 0},
		{"a flood, the others' p99, against no fair queue", Side{"flood", Mete}, Side{"flood", Direct}, 95, othersTail, 0.15, 0},
		{"a flood, throughput, against no fair queue", Side{"flood", Mete}, Side{"flood", Direct}, 95, throughput, 2, 0.95},
		{"four gateways, mean, against one", Side{"gateways", Mete}, ours, 20, meanTTFT, 1.8, 0},
		{"replicas come and go, hit rate, against those that stay", Side{"churn", Mete}, ours, 20, hitRate, 2, 0.85},
	} {
		a := aim{ours: row.ours, base: row.base, figure: row.figure}
		p, err := lab.point(a, row.ours, row.load)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.3f and %.3f, ratio %.3f", row.name, p.Ours, p.Base, p.Ratio)
		if p.Ratio > row.most || p.Ratio < row.least {
			t.Errorf("%s: ratio %.3f, want %v to %v", row.name, p.Ratio, row.least, row.most)
		}
	}
}
