package overhead

import (
	"context"
	"errors"
	"fmt"
	"io"

	"mete/bench/sim"
)

// replicaConfig is what all replicas are alike in, so that the generator knows
// their answers.
func replicaConfig() sim.Config { return sim.Config{Models: []string{model}, MaxModelLen: 4 << 20} }

// model is the one that requests name. The gateway knows it by the same name,
// so that all proxies relay the same bytes.
const model = "sim"

// ServeReplicas runs n simulated replicas until ctx ends or input does, and
// prints their URLs, one a line. The comparison runs it as a process of its
// own, in one process for all, because what they cost does not matter.
func ServeReplicas(ctx context.Context, n int, input io.Reader, output io.Writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, input)
		cancel()
	}()
	for range n {
		replica, failed := sim.Start(replicaConfig())
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, replica.Close()) }()
		if _, err := fmt.Fprintln(output, replica.URL()); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}
