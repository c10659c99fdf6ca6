package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mete/auth"
	"mete/bench/schedule"
	"mete/bench/sim"
)

// realConfig is a gateway with a key for each caller and no limits in the way.
const realConfig = `service: mete
listen: {api: "%s", admin: "%s"}
models: [{id: sim, pool: replicas, created: 2026-01-15, context_window: 131072}]
pools: {replicas: {replicas: [%s]}}
plans: {bench: {limits: []}}
keys:
%slog: {level: error}
shutdown: {lame_duck: 0s, drain: 1s}
`

// realRuns are what is held against the simulation: little enough for a machine
// that runs callers, gateway and replicas at once.
var realRuns = []struct {
	workload string
	replicas int
	load     float64
}{{"multi-turn", 4, 12}, {"calm", 1, 20}, {"flood", 1, 20}}

// compareReal sends scaled-down workloads through a real gateway and real simulated
// replicas, and simulates the same.
func (f *scheduleFlags) compareReal(cmd *cobra.Command) error {
	window := 20 * time.Second
	if f.duration > 0 {
		window = f.duration
	}
	profile, err := sim.NamedProfile("llama-3.1-8b-h100")
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%v each after 10s of warming up, one seed\n\n| workload | replicas | requests/s | | mean TTFT ms | p50 | p99 | others' p99 | tokens/s | hits | unfinished |\n|---|---|---|---|---|---|---|---|---|---|---|\n", window)
	for _, r := range realRuns {
		w, err := schedule.WorkloadNamed(r.workload)
		if err != nil {
			return err
		}
		s := schedule.Setup{Workload: w, Policy: schedule.Mete, Load: r.load, Replicas: r.replicas, Seed: 1, Warm: 10 * time.Second, Window: window, Profile: profile}
		simulated, err := schedule.Run(s)
		if err != nil {
			return err
		}
		measured, err := runReal(cmd.Context(), s)
		if err != nil {
			return err
		}
		for _, line := range []struct {
			name string
			schedule.Metrics
		}{{"simulated", simulated}, {"real", measured}} {
			fmt.Fprintf(out, "| %s | %d | %g | %s | %.0f | %.0f | %.0f | %.0f | %.0f | %.2f | %d |\n", r.workload, r.replicas, r.load, line.name,
				line.TTFT.Mean, line.TTFT.P50, line.TTFT.P99, line.Others.P99, line.Tokens, line.HitRate, line.Unfinished)
		}
	}
	return nil
}

func runReal(ctx context.Context, s schedule.Setup) (schedule.Metrics, error) {
	var urls []string
	for i := range s.Replicas {
		p := s.Profile
		r, err := sim.Start(sim.Config{Seed: uint64(i), MaxModelLen: 131072, Profile: &p, Details: true})
		if err != nil {
			return schedule.Metrics{}, err
		}
		defer func() { _ = r.Close() }()
		urls = append(urls, r.URL())
	}
	target, stop, err := startScheduled(ctx, urls)
	if err != nil {
		return schedule.Metrics{}, err
	}
	defer stop()
	return schedule.RunReal(ctx, s, target)
}

// startScheduled starts this program as a gateway, and returns how to end it.
func startScheduled(ctx context.Context, replicas []string) (t schedule.Target, stop func(), err error) {
	dir, err := os.MkdirTemp("", "mete-schedule-")
	if err != nil {
		return t, nil, err
	}
	api, admin := freePort(), freePort()
	t = schedule.Target{URL: "http://" + api + "/v1", Model: "sim"}
	var keys strings.Builder
	for i := range 10 {
		key := fmt.Sprintf("sk-mete-%040x", i)
		t.Keys = append(t.Keys, key)
		fmt.Fprintf(&keys, "  - {name: caller-%d, plan: bench, sha256: %q}\n", i, auth.Hash([]byte(key)).Hex())
	}
	path := filepath.Join(dir, "mete.yaml")
	text := fmt.Sprintf(realConfig, api, admin, `"`+strings.Join(replicas, `", "`)+`"`, keys.String())
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return t, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return t, nil, err
	}
	gateway := exec.CommandContext(ctx, self, "serve", "--config", path)
	gateway.Stderr = os.Stderr
	if err := gateway.Start(); err != nil {
		return t, nil, err
	}
	stop = func() {
		_ = gateway.Process.Signal(syscall.SIGTERM)
		_ = gateway.Wait()
		_ = os.RemoveAll(dir)
	}
	if err := awaitListener(ctx, api); err != nil {
		stop()
		return t, nil, err
	}
	return t, stop, nil
}

func awaitListener(ctx context.Context, address string) error {
	for range 300 {
		if c, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("the gateway does not listen at %s", address)
}

// freePort is a loopback address that nobody listened on a moment ago.
func freePort() string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "127.0.0.1:0"
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}
