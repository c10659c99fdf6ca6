package load

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// clock sleeps to a moment. The runtime's own timers are late by up to a
// millisecond while a process has little to do; a kernel timer that the network
// poller waits for is not.
type clock struct{ file *os.File }

func newClock() *clock {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return &clock{}
	}
	return &clock{file: os.NewFile(uintptr(fd), "timer")}
}

// sleepUntil returns false when ctx ended first.
func (c *clock) sleepUntil(ctx context.Context, at time.Time) bool {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	if c.file == nil || wait > time.Second {
		return c.sleepCoarse(ctx, at, wait)
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(wait))}
	raw, err := c.file.SyscallConn()
	if err != nil {
		return c.sleepCoarse(ctx, at, wait)
	}
	armed := error(nil)
	if err := raw.Control(func(fd uintptr) { armed = unix.TimerfdSettime(int(fd), 0, &spec, nil) }); err != nil || armed != nil {
		return c.sleepCoarse(ctx, at, wait)
	}
	var expirations [8]byte
	_, err = c.file.Read(expirations[:])
	return err == nil && ctx.Err() == nil
}

// sleepCoarse sleeps until shortly before the moment, and then by the kernel.
func (c *clock) sleepCoarse(ctx context.Context, at time.Time, wait time.Duration) bool {
	if c.file != nil && wait > 100*time.Millisecond {
		wait -= 50 * time.Millisecond
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return c.sleepUntil(ctx, at)
	}
}

func (c *clock) close() {
	if c.file != nil {
		_ = c.file.Close()
	}
}
