package overhead

import (
	"context"
	"io"
	"net"
	"slices"
	"time"
)

// roundTrips are times of a call to Redis and back, in microseconds, sorted.
type roundTrips []float64

func (r roundTrips) quantile(q float64) float64 {
	if len(r) == 0 {
		return 0
	}
	return r[int(q*float64(len(r)-1))]
}

// pingWhile sends a PING every 2 ms until ctx ends, and then hands over the
// times.
func pingWhile(ctx context.Context, address string) <-chan roundTrips {
	result := make(chan roundTrips, 1)
	go func() {
		trips := ping(ctx, address)
		slices.Sort(trips)
		result <- trips
	}()
	return result
}

func ping(ctx context.Context, address string) (trips roundTrips) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil
	}
	defer func() { _ = conn.Close() }()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	var answer [7]byte
	for {
		select {
		case <-ctx.Done():
			return trips
		case <-tick.C:
		}
		began := time.Now()
		if _, err := conn.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
			return trips
		}
		if _, err := io.ReadFull(conn, answer[:]); err != nil {
			return trips
		}
		trips = append(trips, float64(time.Since(began).Nanoseconds())/1e3)
	}
}
