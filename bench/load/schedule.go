package load

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"
)

// A Schedule tells when each request is meant to be sent, as time since the
// start of the run, in order. It is a pure function: ranging over it twice
// gives the same times.
type Schedule = iter.Seq[time.Duration]

// Arrivals are the numbers 0 <= n of a process that has one arrival per unit,
// on average. A rate turns them into times.
type Arrivals = iter.Seq[float64]

// Even has an arrival at each whole number.
func Even() Arrivals {
	return func(yield func(float64) bool) {
		n := 0
		for yield(float64(n)) {
			n++
		}
	}
}

// Random is a Poisson process: arrivals that know nothing of each other, as
// those of many callers do.
func Random(seed uint64) Arrivals {
	return func(yield func(float64) bool) {
		random := rand.New(rand.NewPCG(seed, 0x5eed))
		n := 0.0
		for yield(n) {
			n += random.ExpFloat64()
		}
	}
}

// Constant sends at a rate that does not change, per second.
func Constant(arrivals Arrivals, rate float64) Schedule {
	return timed(arrivals, func(n float64) float64 { return n / rate })
}

// Ramp changes the rate steadily from one value to another, per second, and
// then stays there.
func Ramp(arrivals Arrivals, from, to float64, over time.Duration) Schedule {
	span := over.Seconds()
	slope := (to - from) / span
	reached := span * (from + to) / 2 // arrivals when the ramp ends
	return timed(arrivals, func(n float64) float64 {
		switch {
		case n >= reached:
			return span + (n-reached)/to
		case slope == 0:
			return n / from
		}
		return (math.Sqrt(from*from+2*slope*n) - from) / slope
	})
}

// Replay sends at recorded times, speed times as fast.
func Replay(times []time.Duration, speed float64) Schedule {
	return func(yield func(time.Duration) bool) {
		for _, at := range times {
			if !yield(time.Duration(float64(at) / speed)) {
				return
			}
		}
	}
}

// timed turns arrivals into times by the inverse of the number of arrivals that
// the rate has brought after so many seconds.
func timed(arrivals Arrivals, inverse func(n float64) float64) Schedule {
	return func(yield func(time.Duration) bool) {
		for n := range arrivals {
			if !yield(time.Duration(inverse(n) * float64(time.Second))) {
				return
			}
		}
	}
}

// CheckRate says what is wrong with a rate per second.
func CheckRate(rate float64) error {
	if !(rate > 0) || math.IsInf(rate, 0) {
		return fmt.Errorf("rate of %v requests a second: want more than 0", rate)
	}
	return nil
}
