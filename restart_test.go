package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mete/auth/redistest"
	"mete/bench/load"
	"mete/bench/sim"
)

// gatewayProcess is a gateway in a process of its own, and its successors.
type gatewayProcess struct {
	*testing.T
	cmd           *exec.Cmd
	exited        chan error
	file, logFile string
	api, admin    string
	pids          []int // of the processes that have served, in their order
	requests      []*load.Request
	store         *redistest.Server
	replica       *sim.Replica
	seen          int // log lines that were looked at
}

// startGateway runs `mete serve` on a real Redis and a simulated replica.
func startGateway(t *testing.T, prepare func(*exec.Cmd)) *gatewayProcess {
	t.Helper()
	dir, store := t.TempDir(), redistest.Start(t)
	replica := sim.Config{Models: []string{"mete"}}
	r := startSim(t, replica)
	g := &gatewayProcess{T: t, store: store, replica: r, file: filepath.Join(dir, "mete.yaml"), logFile: filepath.Join(dir, "log"), exited: make(chan error, 1)}
	text := fmt.Sprintf(`
listen: {api: "127.0.0.1:0", admin: "127.0.0.1:0"}
redis: {url: "redis://%s", timeout: 2s, connect_timeout: 2s}
shutdown: {lame_duck: 300ms, drain: 30s}
log: {level: info, format: json, file: %s}
pools: {general: {replicas: [%q]}}
models: [{id: mete, pool: general, created: 2026-01-15, context_window: 32768}]
plans: {open: {limits: [{requests: 100000, per: 1s}]}}
keys: [{name: first, plan: open, sha256: "%x"}]
`, store.Addr(), g.logFile, r.URL(), sha256.Sum256([]byte(poolKey)))
	if err := os.WriteFile(g.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g.requests = hashChecked(t, replica)
	g.cmd = exec.Command(os.Args[0], "serve", "--config", g.file)
	g.cmd.Env = append(os.Environ(), asCommand+"=1")
	if prepare != nil {
		prepare(g.cmd)
	}
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { g.exited <- g.cmd.Wait() }()
	t.Cleanup(g.end)
	g.awaitReady()
	return g
}

// hashChecked makes requests whose answers are known to the byte.
func hashChecked(t *testing.T, replica sim.Config) []*load.Request {
	t.Helper()
	requests, err := load.Synthetic(1, 64, load.Lengths{Prompt: 40, Answer: 60, Spread: 0.5}, load.Shape{Model: "mete"})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range requests {
		if q.Expect, err = load.Expect(replica, "/v1"+q.Path, q.Body); err != nil {
			t.Fatal(err)
		}
	}
	return requests
}

// awaitReady waits for the next process to say that it serves.
func (g *gatewayProcess) awaitReady() {
	g.Helper()
	line := g.await("mete is ready")
	g.api, g.admin = line["api"].(string), line["admin"].(string)
	g.pids = append(g.pids, int(line["pid"].(float64)))
}

// await waits for the next line of the log with a message.
func (g *gatewayProcess) await(message string) map[string]any {
	g.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		text, _ := os.ReadFile(g.logFile)
		lines := strings.SplitAfter(string(text), "\n")
		for ; g.seen < len(lines)-1; g.seen++ {
			var line map[string]any
			if json.Unmarshal([]byte(lines[g.seen]), &line) == nil && line["message"] == message {
				g.seen++
				return line
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	text, _ := os.ReadFile(g.logFile)
	g.Fatalf("no %q in the log:\n%.4000s", message, text)
	return nil
}

// end stops the process that serves, and waits until nobody answers.
func (g *gatewayProcess) end() {
	if len(g.pids) > 0 {
		_ = syscall.Kill(g.pids[len(g.pids)-1], syscall.SIGTERM)
	} else {
		_ = g.cmd.Process.Kill()
	}
	<-g.exited
	for range 2000 {
		c, err := net.Dial("tcp", g.admin)
		if err != nil {
			return
		}
		_ = c.Close()
		time.Sleep(5 * time.Millisecond)
	}
	g.Error("a process still listens")
}

// inFlight is how many exchanges are under way.
func (g *gatewayProcess) inFlight() (n int) {
	response, err := http.Get("http://" + g.admin + "/metrics")
	if err != nil {
		g.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		g.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\nmete_in_flight ")
	_, _ = fmt.Sscan(rest, &n)
	return n
}

func (g *gatewayProcess) load(concurrency int) *load.Session {
	g.Helper()
	target, err := load.ParseTarget("http://" + g.api + "/v1")
	if err != nil {
		g.Fatal(err)
	}
	target.Keys = []string{poolKey}
	session, err := load.Start(g.Context(), load.Options{Target: target, Requests: g.requests, Concurrency: concurrency})
	if err != nil {
		g.Fatal(err)
	}
	return session
}

func wantOnlyWhole(t *testing.T, result *load.Result, least int64) {
	t.Helper()
	for code, n := range result.Codes {
		if code != "200" {
			t.Errorf("%d answers ended as %s", n, code)
		}
	}
	if result.Counters.Verified < least {
		t.Errorf("only %d answers were compared", result.Counters.Verified)
	}
}

// TestARestartLosesNothing starts the gateway anew on its sockets, again and
// again under load.
func TestARestartLosesNothing(t *testing.T) {
	times := 2
	if *long {
		times = 20
	}
	g := startGateway(t, nil)
	session := g.load(20)
	for range times {
		if err := syscall.Kill(g.pids[len(g.pids)-1], syscall.SIGUSR2); err != nil {
			t.Fatal(err)
		}
		g.awaitReady()
		g.await("stopped")
	}
	result := session.Stop()
	t.Logf("%d restarts, answers: %v", times, result.Codes)
	wantOnlyWhole(t, result, 100)
	if g.pids[0] == g.pids[1] {
		t.Error("it is the same process")
	}
}

func TestARestartThatFailsChangesNothing(t *testing.T) {
	g := startGateway(t, nil)
	good, err := os.ReadFile(g.file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(g.file, append(good, "surprise: 1\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := g.cmd.Process.Signal(syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	line := g.await("no new process; this one goes on")
	if !strings.Contains(fmt.Sprint(line["error"]), "ended before it served") {
		t.Errorf("the log says %v", line)
	}
	s := &site{T: t, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	if a := s.askAt(g.api, askBody(1, true)); !a.whole() {
		t.Errorf("%+v", a)
	}
}

// TestSystemdsSocketsAreUsed passes a socket as systemd does, and listens where
// it wants to be told.
func TestSystemdsSocketsAreUsed(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	passed, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	told, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = told.Close() })
	g := startGateway(t, func(cmd *exec.Cmd) {
		// systemd sets the id between fork and exec; so can a shell.
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`}, cmd.Args...)
		cmd.ExtraFiles = []*os.File{passed}
		cmd.Env = append(cmd.Env, "LISTEN_FDS=1", "LISTEN_FDNAMES=mete.socket", "NOTIFY_SOCKET="+told.LocalAddr().String())
	})
	_ = passed.Close()
	if g.api != ln.Addr().String() {
		t.Errorf("it listens on %s, not on %s", g.api, ln.Addr())
	}
	want := func(state string) {
		t.Helper()
		buf := make([]byte, 256)
		_ = told.SetReadDeadline(time.Now().Add(20 * time.Second))
		n, err := told.Read(buf)
		if err != nil || !strings.HasPrefix(string(buf[:n]), state) {
			t.Errorf("systemd was told %q, %v; want %s", buf[:n], err, state)
		}
	}
	want(fmt.Sprintf("READY=1\nMAINPID=%d", g.pids[0]))
	if err := g.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	want("RELOADING=1\nMONOTONIC_USEC=")
	want("READY=1")
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	want("STOPPING=1")
}

// TestStreamsOutliveSIGTERM: what ends within the drain time is not cut.
func TestStreamsOutliveSIGTERM(t *testing.T) {
	streams, length := 50, 3*time.Second
	if *long {
		streams, length = 200, 20*time.Second
	}
	g := startGateway(t, nil)
	answers := make(chan answer, streams)
	s := &site{T: t, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	tokens := int(length / (20 * time.Millisecond))
	for i := range streams {
		go func() {
			answers <- s.askAt(g.api, fmt.Sprintf(`{"model":"mete","stream":true,"ignore_eos":true,"max_tokens":%d,"sim_fault":"slow; factor=2; pause=10ms","messages":[{"role":"user","content":"question %d"}]}`, tokens, i))
		}()
	}
	s.eventually("all streams", 20*time.Second, func() bool { return g.inFlight() == streams })
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	broken := 0
	for range streams {
		if a := <-answers; !a.whole() || !strings.HasSuffix(a.body, "data: [DONE]\n\n") {
			broken++
			t.Logf("%d %v %.200s", a.status, a.err, a.body)
		}
	}
	t.Logf("%d streams of %v, %d were broken by SIGTERM", streams, length, broken)
	if broken > 0 {
		t.Errorf("%d of %d streams were broken", broken, streams)
	}
	g.await("stopped")
}

func TestAPanicOfAPageCostsOneRequest(t *testing.T) {
	s := startSite(t, siteConfig())
	server := s.newHTTPServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("of the test") }))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(ln) }()
	defer func() { _ = server.Close() }()
	for range 2 {
		if response, err := s.client.Get("http://" + ln.Addr().String()); err == nil {
			_ = response.Body.Close()
			t.Error("a panic was answered")
		}
	}
	if log := s.log.String(); strings.Count(log, `"panic":"of the test"`) != 2 || !strings.Contains(log, "restart_test.go") {
		t.Errorf("the log says %.2000s", log)
	}
}
