package main

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// TestGatewayThatEndsRightAfterItsStartEnds: serving may not have begun when
// everything is closed again, and must then not begin for ever. One processor
// makes that likely, two make other orders so.
func TestGatewayThatEndsRightAfterItsStartEnds(t *testing.T) {
	errNotReady := errors.New("not ready")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for n := range 30 {
		runtime.GOMAXPROCS(1 + n%2)
		cfg := tryItConfig()
		cfg.Listen.API, cfg.Listen.Admin = "127.0.0.1:0", "127.0.0.1:0"
		pool := cfg.Pools["general"]
		pool.Replicas = []string{"http://127.0.0.1:1"}
		cfg.Pools["general"] = pool
		done := make(chan error, 1)
		go func() {
			done <- run(context.Background(), cfg, zerolog.Nop(), func(*running) error { return errNotReady })
		}()
		select {
		case err := <-done:
			if !errors.Is(err, errNotReady) {
				t.Fatal(err)
			}
		case <-time.After(30 * time.Second):
			stacks := make([]byte, 1<<20)
			t.Fatalf("start %d never ended\n%s", n+1, stacks[:runtime.Stack(stacks, true)])
		}
	}
}
