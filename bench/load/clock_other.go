//go:build !linux

package load

import (
	"context"
	"time"
)

// clock sleeps to a moment, as precisely as the runtime's timers are.
type clock struct{}

func newClock() *clock { return &clock{} }

// sleepUntil returns false when ctx ended first.
func (*clock) sleepUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (*clock) close() {}
