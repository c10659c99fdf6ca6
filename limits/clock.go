package limits

import (
	"sync/atomic"
	"time"
)

// clock estimates Redis's clock in microseconds from the answers of Redis. It
// runs on the monotonic clock between them, so that a step of this machine's
// own clock changes nothing.
type clock struct {
	base   time.Time
	offset atomic.Int64 // what is added to the time since base
	known  atomic.Bool  // false: offset is this machine's own
}

func newClock() *clock {
	c := &clock{base: time.Now()}
	c.offset.Store(c.base.UnixMicro())
	return c
}

func (c *clock) now() int64 { return c.at(time.Now()) }

func (c *clock) at(t time.Time) int64 { return t.Sub(c.base).Microseconds() + c.offset.Load() }

// learn takes in that Redis's clock stood at now at some moment between sent
// and received. The estimate is off by no more than half of what lies between.
func (c *clock) learn(now int64, sent, received time.Time) {
	middle := sent.Sub(c.base) + received.Sub(sent)/2
	c.offset.Store(now - middle.Microseconds())
	c.known.Store(true)
}

// deadline is the moment, by Redis's clock, after which a command sent now
// must not have any effect; 0, which is none, while that clock is not known.
func (c *clock) deadline(timeout time.Duration) int64 {
	if !c.known.Load() {
		return 0
	}
	return c.now() + timeout.Microseconds()
}
