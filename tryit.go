package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mete/auth"
	"mete/bench/sim"
	"mete/config"
)

// tryIt runs the gateway in front of two simulated replicas, with a store in
// the same process and a fresh key, all on loopback.
func tryIt(cmd *cobra.Command, flags serveFlags) error {
	cfg := tryItConfig()
	flags.override(cfg)
	replicas, err := startReplicas(cfg.Service, 2)
	if err != nil {
		return err
	}
	defer closeReplicas(replicas)
	for _, r := range replicas {
		pool := cfg.Pools["general"]
		pool.Replicas = append(pool.Replicas, r.URL())
		cfg.Pools["general"] = pool
	}
	tokenFile, err := writeAdminToken(cfg)
	if err != nil {
		return err
	}
	defer os.RemoveAll(filepath.Dir(tokenFile))
	log, closeLog, err := newLogger(cfg.Log)
	if err != nil {
		return err
	}
	defer closeLog()
	err = run(cmd.Context(), cfg, log, func(r *running) error {
		return greet(cmd.Context(), cmd.OutOrStdout(), r, tokenFile)
	})
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; choose others: mete serve --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --console-listen 127.0.0.1:0", err)
	}
	return err
}

// tryItConfig is what a small configuration file would say.
func tryItConfig() *config.Config {
	cfg := config.Default()
	cfg.Listen = config.Listen{API: "127.0.0.1:8080", Console: "127.0.0.1:8081", Admin: "127.0.0.1:9090"}
	cfg.Console.Plans = []string{"try"}
	cfg.Log.Level = "warn"
	cfg.Shutdown.LameDuck = 0
	cfg.Pools["general"] = config.DefaultPool()
	created := time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC)
	cfg.Models = []config.Model{
		{ID: cfg.Service, Pool: "general", Created: created, ContextWindow: 32768, Root: cfg.Service},
		{ID: cfg.Service + "-thinking", Pool: "general", Created: created, ContextWindow: 131072, Root: cfg.Service, UpstreamModel: cfg.Service,
			Request: []config.Member{{Name: "chat_template_kwargs", Value: json.RawMessage(`{"enable_thinking":true}`)}}},
	}
	plan := config.DefaultPlan()
	plan.Limits = []config.Limit{
		{Requests: 6000, Per: time.Minute}, {Tokens: 10_000_000, Per: time.Minute}, {Concurrent: 256},
	}
	cfg.Plans["try"] = plan
	return cfg
}

func startReplicas(model string, n int) (replicas []*sim.Replica, err error) {
	profile, err := sim.NamedProfile("llama-3.1-8b-h100")
	if err != nil {
		return nil, err
	}
	for i := range n {
		r, err := sim.Start(sim.Config{Models: []string{model}, MaxModelLen: 131072, Seed: uint64(i), Profile: &profile})
		if err != nil {
			closeReplicas(replicas)
			return nil, fmt.Errorf("simulated replica: %w", err)
		}
		replicas = append(replicas, r)
	}
	return replicas, nil
}

func closeReplicas(replicas []*sim.Replica) {
	for _, r := range replicas {
		_ = r.Close()
	}
}

// writeAdminToken makes a token for `mete keys`, in a folder that only this
// user can read.
func writeAdminToken(cfg *config.Config) (path string, err error) {
	dir, err := os.MkdirTemp("", "mete-")
	if err != nil {
		return "", fmt.Errorf("folder for the admin token: %w", err)
	}
	secret, err := auth.RandomPepper()
	if err != nil {
		return "", err
	}
	token := hex.EncodeToString(secret.Secret)
	cfg.Keystore.AdminToken = config.Secret(token)
	path = filepath.Join(dir, "admin-token")
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("admin token: %w", err)
	}
	return path, nil
}

// greet makes a key and prints what a client needs, each alone on its line.
func greet(ctx context.Context, out io.Writer, r *running, tokenFile string) error {
	key, _, err := r.keys.Create(ctx, auth.Request{Name: "try-it", Owner: "you", Plan: "try", Origin: auth.FromCLI})
	if err != nil {
		return fmt.Errorf("first key: %w", err)
	}
	base := "http://" + r.api.Addr().String() + "/v1"
	fmt.Fprintf(out, "OPENAI_BASE_URL=%s\n", base)
	fmt.Fprintf(out, "OPENAI_API_KEY=%s\n", key)
	fmt.Fprintf(out, `curl -N %s/chat/completions -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' -d '{"model":"%s","stream":true,"messages":[{"role":"user","content":"Hello!"}]}'`+"\n",
		base, key, r.cfg().Service)
	fmt.Fprintf(out, "\nTwo simulated replicas answer with made-up words. The key is good until Ctrl-C.\n")
	fmt.Fprintf(out, "More keys:  mete keys create --plan try --name NAME --admin http://%s --token-file %s\n", r.admin.Addr(), tokenFile)
	fmt.Fprintf(out, "Metrics:    http://%s/metrics\n", r.admin.Addr())
	return nil
}
