package load

import (
	"iter"
	"math"
	"slices"
	"testing"
	"time"
)

func first[T any](n int, seq iter.Seq[T]) []T {
	var got []T
	for v := range seq {
		if got = append(got, v); len(got) == n {
			break
		}
	}
	return got
}

func TestConstantScheduleSendsEvenly(t *testing.T) {
	want := []time.Duration{0, 250 * time.Millisecond, 500 * time.Millisecond}
	if got := first(3, Constant(Even(), 4)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRampReachesItsRateAndKeepsIt(t *testing.T) {
	var counts [30]int
	for at := range Ramp(Even(), 10, 100, 10*time.Second) {
		if at >= 30*time.Second {
			break
		}
		counts[int(at.Seconds())]++
	}
	for second, want := range map[int]float64{0: 14.5, 4: 50.5, 9: 95.5, 12: 100, 29: 100} {
		if got := float64(counts[second]); math.Abs(got-want) > 1.5 {
			t.Errorf("second %d sends %v, want about %v", second, got, want)
		}
	}
}

func TestRampMayFallOrBeFlat(t *testing.T) {
	flat := first(4, Ramp(Even(), 2, 2, time.Second))
	if want := []time.Duration{0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond}; !slices.Equal(flat, want) {
		t.Errorf("flat: %v", flat)
	}
	falling := first(400, Ramp(Even(), 100, 10, 5*time.Second))
	if !slices.IsSorted(falling) || falling[399] < 10*time.Second {
		t.Errorf("falling: %v", falling[399])
	}
}

func TestPoissonScheduleIsReproducibleAndHasItsRate(t *testing.T) {
	a, b := first(20000, Constant(Random(7), 1000)), first(20000, Constant(Random(7), 1000))
	if !slices.Equal(a, b) {
		t.Error("the same seed gave other times")
	}
	if slices.Equal(a[:10], first(10, Constant(Random(8), 1000))) {
		t.Error("another seed gave the same times")
	}
	mean := a[len(a)-1].Seconds() / float64(len(a)-1)
	var variance float64
	for i := 1; i < len(a); i++ {
		d := (a[i] - a[i-1]).Seconds() - mean
		variance += d * d / float64(len(a)-1)
	}
	// Of exponential gaps mean and deviation are equal.
	if math.Abs(mean*1000-1) > 0.03 || math.Abs(math.Sqrt(variance)*1000-1) > 0.05 {
		t.Errorf("mean %v, deviation %v of a 1 ms gap", mean, math.Sqrt(variance))
	}
}

func TestReplayKeepsTimesAndMayHurry(t *testing.T) {
	times := []time.Duration{0, time.Second, 4 * time.Second}
	want := []time.Duration{0, 500 * time.Millisecond, 2 * time.Second}
	if got := first(5, Replay(times, 2)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
