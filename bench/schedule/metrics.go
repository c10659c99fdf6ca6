package schedule

import (
	"maps"
	"slices"
	"time"
)

// Metrics are what came of one run. Only requests that arrived in the window
// count for the times, only work that was done in the window for the rates.
type Metrics struct {
	Load       float64 `json:"load"` // requests a second that were meant to come
	Requests   int     `json:"requests"`
	Finished   int     `json:"finished"`   // in the window, whenever they arrived
	Unfinished int     `json:"unfinished"` // at the end of the run
	Unanswered int     `json:"unanswered"` // of them, without a first token
	Refused    int     `json:"refused"`
	TTFT       Times   `json:"ttft"`
	Tokens     float64 `json:"tokens_per_second"` // prompts and answers of finished requests
	Output     float64 `json:"output_tokens_per_second"`
	HitRate    float64 `json:"hit_rate"`  // cached tokens of prompts
	Imbalance  float64 `json:"imbalance"` // most of a replica's mean in flight, over their mean
	Peak       float64 `json:"peak"`      // most in flight over the mean, at a moment, mean of the moments
	Stable     bool    `json:"stable"`    // the number of waiting requests did not grow
	Others     Times   `json:"others"`    // of all callers but the first
	Jain       float64 `json:"jain"`      // of what callers got for their fair share
}

// Times summarizes times to first token, in milliseconds.
type Times struct {
	Mean float64 `json:"mean_ms"`
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
}

func summarize(times []time.Duration) Times {
	if len(times) == 0 {
		return Times{}
	}
	sorted := slices.Sorted(slices.Values(times))
	sum := time.Duration(0)
	for _, t := range sorted {
		sum += t
	}
	at := func(q float64) float64 { return milliseconds(sorted[int(q*float64(len(sorted)-1)+0.5)]) }
	return Times{Mean: milliseconds(sum) / float64(len(sorted)), P50: at(0.5), P99: at(0.99)}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// others are the times of all callers but the first, which may flood.
func (b *books) others() (times []time.Duration) {
	for _, c := range slices.Sorted(maps.Keys(b.callers)) {
		if c > 0 {
			times = append(times, b.callers[c].ttft...)
		}
	}
	return times
}

// jain is Jain's index of what callers got for their max-min fair share of all
// that was given: 1 if nobody was wronged, 1/n if one got everything.
func (b *books) jain() float64 {
	var asked, got []float64
	total := 0.0
	for _, c := range slices.Sorted(maps.Keys(b.callers)) {
		a := b.callers[c]
		asked, got = append(asked, a.asked), append(got, a.got)
		total += a.got
	}
	fair := fairShares(asked, total)
	sum, squares := 0.0, 0.0
	for i := range got {
		x := got[i] / max(fair[i], 1)
		sum, squares = sum+x, squares+x*x
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(got)) * squares)
}

// fairShares fills everybody's demand evenly until there is nothing left.
func fairShares(asked []float64, total float64) []float64 {
	shares := make([]float64, len(asked))
	order := make([]int, len(asked))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if asked[a] < asked[b] {
			return -1
		}
		return 1
	})
	for k, i := range order {
		shares[i] = min(asked[i], total/float64(len(order)-k))
		total -= shares[i]
	}
	return shares
}
