package limits

import "time"

// buckets is how many buckets a window's length is cut into. lua/window.lua
// has the same number.
const buckets = 20

// shape is one limit over one sliding window: at most limit in any true window
// of this length. Time is in microseconds of Redis's clock throughout.
type shape struct {
	kind  Kind
	limit int64
	per   time.Duration
	width int64  // of a bucket
	name  string // what the window is called in its hash: "r60000000:"
}

// bucket is the number of the bucket in which now lies.
func (s *shape) bucket(now int64) int64 { return now / s.width }

// window counts what was charged in each bucket. It keeps buckets+1 of them
// and counts the oldest whole: any true window of the length that the shape
// has, wherever it begins, lies within buckets+1 buckets, so that holding
// their sum under the limit holds every true window under it. The price is a
// refusal up to one bucket too early.
//
// The zero window is empty. It is not safe for use from several goroutines.
type window struct {
	newest int64 // number of the newest bucket
	sum    int64
	held   [buckets + 1]int64 // bucket b lies in held[b % (buckets+1)]
}

// roll moves the window on to bucket k. A clock that stepped back a little
// does not move it; one that stepped back by a whole window empties it.
func (w *window) roll(k int64) {
	if k < w.newest-buckets || k > w.newest+buckets {
		*w = window{newest: k}
		return
	}
	for w.newest < k {
		w.newest++
		w.sum -= *w.at(w.newest)
		*w.at(w.newest) = 0
	}
}

// change adds diff to a bucket, no later one than the newest and no more out
// of it than is in it. A bucket that has left the window is let be.
func (w *window) change(bucket, diff int64) {
	bucket = min(bucket, w.newest)
	if bucket < w.newest-buckets {
		return
	}
	diff = max(diff, -*w.at(bucket))
	*w.at(bucket) += diff
	w.sum += diff
}

// wait is how many microseconds after now cost fits under limit if nothing
// else happens; 0 if it fits now. A cost above the limit never fits.
func (w *window) wait(s *shape, limit, cost, now int64) int64 {
	over := w.sum + cost - limit
	if over <= 0 {
		return 0
	}
	for b := w.newest - buckets; b < w.newest; b++ {
		if over -= *w.at(b); over <= 0 {
			return s.leaves(b) - now
		}
	}
	return s.leaves(w.newest) - now
}

// charge is what one bucket holds.
type charge struct{ bucket, held int64 }

// charged gives the buckets that hold something, oldest first.
func (w *window) charged() []charge {
	var all []charge
	for b := w.newest - buckets; b <= w.newest; b++ {
		if n := *w.at(b); n != 0 {
			all = append(all, charge{b, n})
		}
	}
	return all
}

// leaves is the moment from which a bucket does not count any more.
func (s *shape) leaves(bucket int64) int64 { return (bucket + buckets + 1) * s.width }

func (w *window) at(bucket int64) *int64 {
	return &w.held[((bucket%(buckets+1))+buckets+1)%(buckets+1)]
}
