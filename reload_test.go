package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mete/bench/load"
	"mete/bench/sim"
	"mete/config"
)

// fileSite is a site that runs on a config file.
type fileSite struct {
	*site
	path, logFile string
	replicas      []*sim.Replica
}

const fileKey = "sk-mete-00000000000000000000000000000000000000aa"

// startFile runs a gateway on the file that text makes of the replicas' URLs.
func startFile(t *testing.T, text func(*fileSite) string) *fileSite {
	t.Helper()
	dir := t.TempDir()
	s := &fileSite{path: filepath.Join(dir, "mete.yaml"), logFile: filepath.Join(dir, "log")}
	for range 3 {
		s.replicas = append(s.replicas, startSim(t, sim.Config{Models: []string{"base"}}))
	}
	if err := os.WriteFile(s.path, []byte(text(s)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan *running, 1), make(chan error, 1)
	go func() {
		done <- serveFile(ctx, serveFlags{config: s.path}, func(r *running) error { ready <- r; return nil })
	}()
	s.site = &site{T: t, log: &syncBuffer{}, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}, Timeout: time.Minute}}
	select {
	case s.running = <-ready:
	case err := <-done:
		cancel()
		t.Fatal(err)
	}
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { s.client.CloseIdleConnections(); s.stop() })
	return s
}

// base is a whole configuration; further lines go behind its sections.
func (s *fileSite) base(further ...string) string {
	text := fmt.Sprintf(`
listen: {api: "127.0.0.1:0", admin: "127.0.0.1:0"}
redis: {url: embedded}
shutdown: {lame_duck: 0s}
log: {level: info, format: json, file: %s}
pools:
  general: {replicas: [%q]}
  second: {replicas: [%q]}
models:
  - {id: mete, pool: general, upstream_model: base, created: 2026-01-15, context_window: 32768}
plans:
  open: {limits: []}
keys:
  - {name: first, plan: open, sha256: "%x"}
`, s.logFile, s.replicas[0].URL(), s.replicas[1].URL(), sha256.Sum256([]byte(poolKey)))
	return text + strings.Join(further, "\n")
}

// rewrite replaces the file as editors do, and waits until the gateway has
// taken it over or refused it.
func (s *fileSite) rewrite(text, result string) {
	s.Helper()
	before := s.reloadsThat(result)
	if err := os.WriteFile(s.path+".new", []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	if err := os.Rename(s.path+".new", s.path); err != nil {
		s.Fatal(err)
	}
	s.eventually("a reload that ends "+result, 30*time.Second, func() bool { return s.reloadsThat(result) > before })
}

func (s *fileSite) reloadsThat(result string) float64 {
	families, err := s.registry.Gather()
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "mete_config_reloads_total" && m.GetLabel()[0].GetValue() == result {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func (s *fileSite) logText() string {
	s.Helper()
	text, err := os.ReadFile(s.logFile)
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

func (s *fileSite) statusFor(key, model string) int {
	s.Helper()
	request, err := http.NewRequest(http.MethodPost, "http://"+s.api.Addr().String()+"/v1/chat/completions",
		strings.NewReader(`{"model":"`+model+`","max_tokens":2,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		s.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func (s *fileSite) want(status int, key, model string) {
	s.Helper()
	if got := s.statusFor(key, model); got != status {
		s.Errorf("model %s: status %d, want %d", model, got, status)
	}
}

func TestAChangedFileIsTakenOver(t *testing.T) {
	s := startFile(t, func(s *fileSite) string { return s.base() })
	s.want(200, poolKey, "mete")
	s.want(404, poolKey, "other")
	s.want(401, fileKey, "mete")
	kept := s.pools()["general"]
	leases := kept.Replicas()[0]

	next := strings.NewReplacer(
		"  - {id: mete,", "  - {id: other, pool: third, upstream_model: base, created: 2026-01-15, context_window: 32768}\n  - {id: mete,",
		"  second: {", "  third: {",
		fmt.Sprintf("general: {replicas: [%q]}", s.replicas[0].URL()), fmt.Sprintf("general: {replicas: [%q, %q], max_in_flight: 7}", s.replicas[0].URL(), s.replicas[2].URL()),
		fmt.Sprintf("%x", sha256.Sum256([]byte(poolKey))), fmt.Sprintf("%x", sha256.Sum256([]byte(fileKey))),
		"level: info", "level: debug",
	).Replace(s.base())
	s.rewrite(next, "ok")
	s.want(401, poolKey, "mete")
	s.want(200, fileKey, "mete")
	s.want(200, fileKey, "other")
	if s.pools()["general"] != kept || !slices.Contains(kept.Replicas(), leases) || len(kept.Replicas()) != 2 {
		t.Error("a pool that stays did not keep what it knows of its replicas")
	}
	if s.pools()["second"] != nil || s.pools()["third"] == nil {
		t.Error("the pools are not those of the file")
	}
	if s.level.String() != "debug" {
		t.Error("the log level is", s.level)
	}
}

// TestAChangeWhileTheGatewayStartsIsNoticed: starting may take seconds, in which
// it waits for replicas.
func TestAChangeWhileTheGatewayStartsIsNoticed(t *testing.T) {
	old, fresh := filepath.Join(t.TempDir(), "old"), filepath.Join(t.TempDir(), "fresh")
	before := newFileWatch([]string{old})
	for _, name := range []string{old, fresh} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	watch := before.following([]string{old, fresh})
	if watch.changed() || !watch.changed() {
		t.Error("the change was not noticed, or not waited for until it was whole")
	}
	if watch = newFileWatch([]string{old, fresh}).following([]string{old, fresh}); watch.changed() {
		t.Error("a change was seen where there was none")
	}
}

func TestABadFileChangesNothing(t *testing.T) {
	s := startFile(t, func(s *fileSite) string { return s.base() })
	s.rewrite(strings.Replace(s.base(), "plan: open", "plan: nowhere", 1), "refused")
	s.want(200, poolKey, "mete")
	s.eventually("the fault's place in the log", 10*time.Second, func() bool {
		return strings.Contains(s.logText(), s.path+":") && strings.Contains(s.logText(), "nowhere")
	})
	s.rewrite(s.base("answer: {server_timing: false}"), "ok")
	s.want(200, poolKey, "mete")
}

func TestWhatOnlyARestartChangesIsNamed(t *testing.T) {
	s := startFile(t, func(s *fileSite) string { return s.base() })
	s.rewrite(strings.Replace(s.base("bounds: {body: 1MiB}\ntimeouts: {header: 9s, idle: 20s}"), `api: "127.0.0.1:0"`, `api: "127.0.0.1:1"`, 1), "ok")
	s.want(200, poolKey, "mete")
	for _, field := range []string{`"listen"`, `"bounds"`, `"timeouts.header"`} {
		if !strings.Contains(s.logText(), `"field":`+field) {
			t.Errorf("%s is not named", field)
		}
	}
	if c := s.cfg(); c.Timeouts.Idle != 20*time.Second || c.Timeouts.Header != config.Default().Timeouts.Header {
		t.Errorf("time-outs are %+v", c.Timeouts)
	}
}

func TestASecretsFileIsWatchedToo(t *testing.T) {
	secret := ""
	s := startFile(t, func(s *fileSite) string {
		secret = filepath.Join(filepath.Dir(s.path), "vllm-key")
		if err := os.WriteFile(secret, []byte("one\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return strings.Replace(s.base(), "second: {", "second: {api_key_file: vllm-key, ", 1)
	})
	before := s.reloadsThat("ok")
	if err := os.WriteFile(secret, []byte("another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.eventually("a reload", 30*time.Second, func() bool { return s.reloadsThat("ok") > before })
	if key := s.cfg().Pools["second"].APIKey.Reveal(); key != "another" {
		t.Errorf("the key is %q", key)
	}
}

func TestSIGHUPLoadsTheFileAgain(t *testing.T) {
	s := startFile(t, func(s *fileSite) string { return s.base() })
	before := s.reloadsThat("ok")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.eventually("a reload", 30*time.Second, func() bool { return s.reloadsThat("ok") > before })
}

// TestReloadsBreakNoAnswer changes pools, models and plans again and again under
// load: every answer is compared, byte by byte, with what the replica sent.
func TestReloadsBreakNoAnswer(t *testing.T) {
	times := 10
	if *long {
		times = 100
	}
	s := startFile(t, func(s *fileSite) string { return s.base() })
	target, err := load.ParseTarget("http://" + s.api.Addr().String() + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	target.Keys = []string{poolKey}
	requests, err := load.Synthetic(1, 64, load.Lengths{Prompt: 40, Answer: 60, Spread: 0.5}, load.Shape{Model: "mete"})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range requests {
		body := strings.Replace(string(q.Body), `"mete"`, `"base"`, 1) // as the replica gets it
		if q.Expect, err = load.Expect(sim.Config{Models: []string{"base"}}, "/v1"+q.Path, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	session, err := load.Start(context.Background(), load.Options{Target: target, Requests: requests, Concurrency: 20})
	if err != nil {
		t.Fatal(err)
	}
	for i := range times {
		text := s.base()
		if i%2 == 0 {
			text = strings.NewReplacer(
				fmt.Sprintf("general: {replicas: [%q]}", s.replicas[0].URL()), fmt.Sprintf("general: {replicas: [%q], check_interval: %dms}", s.replicas[2].URL(), 1000+i),
				"open: {limits: []}", "open: {limits: [{requests: 1000000, per: 1s}]}",
			).Replace(text)
		}
		s.rewrite(text, "ok")
	}
	result := session.Stop()
	t.Logf("%d reloads, answers: %v", times, result.Codes)
	for code, n := range result.Codes {
		if code != "200" {
			t.Errorf("%d answers ended as %s", n, code)
		}
	}
	if result.Counters.Verified < 100 {
		t.Errorf("only %d answers were compared", result.Counters.Verified)
	}
}
