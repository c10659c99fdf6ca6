package schedule

import (
	"math"
	"math/rand/v2"
	"time"
)

// lengths draws a number of tokens.
type lengths func(r *rand.Rand) int

func between(least, most int) lengths {
	return func(r *rand.Rand) int { return least + r.IntN(most-least+1) }
}

// lognormal has the median and, as its logarithm's deviation, sigma; it is cut
// at most.
func lognormal(median, sigma float64, most int) lengths {
	return func(r *rand.Rand) int { return bounded(median*math.Exp(sigma*r.NormFloat64()), most) }
}

func exponential(mean float64, most int) lengths {
	return func(r *rand.Rand) int { return bounded(mean*r.ExpFloat64(), most) }
}

// withTail draws a share of the numbers from a Pareto distribution in place of
// the body.
func withTail(body lengths, share, from, alpha float64, most int) lengths {
	return func(r *rand.Rand) int {
		if r.Float64() >= share {
			return body(r)
		}
		return bounded(from*math.Pow(1-r.Float64(), -1/alpha), most)
	}
}

func bounded(tokens float64, most int) int { return int(min(max(tokens, 1), float64(most))) }

// pause draws an exponential time.
func pause(r *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(r.ExpFloat64() * float64(mean))
}

// geometric draws a number of at least 1 with the given mean.
func geometric(r *rand.Rand, mean float64) int {
	n := 1
	for r.Float64() < 1-1/mean {
		n++
	}
	return n
}

// ranked draws from 0..n-1, rank k with a probability as 1/(k+1).
func ranked(r *rand.Rand, n int) int {
	total := 0.0
	for k := range n {
		total += 1 / float64(k+1)
	}
	x := r.Float64() * total
	for k := range n {
		if x -= 1 / float64(k+1); x < 0 {
			return k
		}
	}
	return n - 1
}

// stream is a source of chance of its own for each purpose, so that none
// depends on how often another is asked.
func stream(seed uint64, purpose, number uint64) *rand.Rand {
	return rand.New(rand.NewPCG(mix(seed)^mix(purpose<<32), mix(number+1)))
}

// mix is splitmix64's finalizer.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
