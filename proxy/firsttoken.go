package proxy

import (
	"math"
	"sync"
	"time"
)

// recentLife is after what time an observation counts 1/e of what it did.
const recentLife = 10 * time.Second

// fewObservations are too few to learn a rate from.
const fewObservations = 3

// firstTokens follows the streams of one model up to their first tokens, to
// predict how long that takes. The older an observation, the less it counts.
type firstTokens struct {
	mu      sync.Mutex
	waiting int       // streams that have no first token yet
	since   time.Time // when one came last, or when nobody had waited before
	sum     float64   // seconds, decayed to at
	weight  float64   // of the observations in sum, likewise
	at      time.Time
}

// begin notes a stream that waits from now on.
func (f *firstTokens) begin(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiting++; f.waiting == 1 {
		f.since = now
	}
}

// end notes that one waits no more: its first token came after took, or it has
// none, and took is nought.
func (f *firstTokens) end(took time.Duration, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting--
	if took == 0 {
		return
	}
	fade := f.fade(now)
	f.sum, f.weight, f.at, f.since = f.sum*fade+took.Seconds(), f.weight*fade+1, now, now
}

func (f *firstTokens) fade(now time.Time) float64 {
	return math.Exp(-max(0, now.Sub(f.at).Seconds()) / recentLife.Seconds())
}

// predict is how long a stream that comes now should wait, the most of three:
// the mean of late; those who wait now over the rate at which they were served
// (Little's law), which sees a crowd before the mean does; and how long nobody
// was served though somebody waits. With nobody there it goes to nought.
func (f *firstTokens) predict(now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	var expected, stalled float64
	if f.weight > 0 {
		expected = f.sum / f.weight * min(1, f.weight*f.fade(now))
	}
	if f.waiting > 0 {
		stalled = now.Sub(f.since).Seconds()
		if f.weight >= fewObservations { // the rate is that of when one was served last
			expected = max(expected, float64(f.waiting)*recentLife.Seconds()/f.weight)
		}
	}
	return time.Duration(max(expected, stalled) * float64(time.Second))
}
