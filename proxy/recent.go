package proxy

import (
	"math"
	"sync"
	"time"
)

// recentLife is after what time an observation counts 1/e of what it did.
const recentLife = 10 * time.Second

// recentMean is a mean of what was observed of late: the older an observation,
// the less it counts. Without new ones it goes to nought.
type recentMean struct {
	mu     sync.Mutex
	sum    float64 // seconds, decayed to at
	weight float64 // of the observations in sum, likewise
	at     time.Time
}

func (m *recentMean) add(d time.Duration, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.weight > 0 {
		fade := math.Exp(-max(0, now.Sub(m.at).Seconds()) / recentLife.Seconds())
		m.sum, m.weight = m.sum*fade, m.weight*fade
	}
	m.sum, m.weight, m.at = m.sum+d.Seconds(), m.weight+1, now
}

// mean is what to expect: of few and old observations less than they say.
func (m *recentMean) mean(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.weight == 0 {
		return 0
	}
	fade := math.Exp(-max(0, now.Sub(m.at).Seconds()) / recentLife.Seconds())
	return time.Duration(m.sum / m.weight * min(1, m.weight*fade) * float64(time.Second))
}
