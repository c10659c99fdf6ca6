package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// loneGateway is a gateway in a process of its own, whose memory and
// descriptors are nobody else's.
type loneGateway struct {
	*testing.T
	cmd        *exec.Cmd
	api, admin string
	client     *http.Client
}

// startLone runs mete serve with a configuration that is completed by
// settings, in front of a simulated replica in another process. prefix goes
// before the command line.
func startLone(t *testing.T, settings string, prefix ...string) *loneGateway {
	t.Helper()
	replica := startReplica(t)
	file := filepath.Join(t.TempDir(), "mete.yaml")
	text := fmt.Sprintf(`listen: {api: "127.0.0.1:0", admin: "127.0.0.1:0"}
models: [{id: mete, pool: general, created: 2026-01-15, context_window: 131072}]
pools: {general: {replicas: ["http://%s"]}}
plans: {open: {}}
keys: [{name: tests, plan: open, sha256: "%x"}]
log: {format: json, sample: 0}
shutdown: {lame_duck: 0s, drain: 5s}
%s`, replica, sha256.Sum256([]byte(poolKey)), settings)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	argv := append(slices.Clone(prefix), os.Args[0], "serve", "--config", file)
	g := &loneGateway{T: t, cmd: exec.Command(argv[0], argv[1:]...), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: 30 * time.Second}}
	g.cmd.Env = append(os.Environ(), asCommand+"=1")
	log, err := g.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.client.CloseIdleConnections(); _ = g.cmd.Process.Kill(); _ = g.cmd.Wait() })
	g.awaitReady(bufio.NewReader(log))
	return g
}

// startReplica runs a simulated replica that answers at once.
func startReplica(t *testing.T) (address string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "sim", "--listen", "127.0.0.1:0", "--model", "mete")
	cmd.Env = append(os.Environ(), asCommand+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(strings.TrimSpace(line), "http://")
}

// awaitReady learns from the log where the gateway listens, and reads on, or
// the gateway would have to wait.
func (g *loneGateway) awaitReady(log *bufio.Reader) {
	g.Helper()
	var seen strings.Builder
	for {
		line, err := log.ReadString('\n')
		if err != nil {
			g.Fatalf("the gateway did not start: %v\n%s", err, seen.String())
		}
		seen.WriteString(line)
		var entry struct{ Message, API, Admin string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.API != "" {
			g.api, g.admin = entry.API, entry.Admin
			rest := &syncBuffer{}
			go func() { _, _ = io.Copy(rest, log) }()
			g.Cleanup(func() {
				if text := rest.String(); g.Failed() {
					g.Logf("the gateway's log ends with %s", text[max(len(text)-1000, 0):])
				}
			})
			return
		}
	}
}

// ask sends one short request and returns its status, 0 if there was no answer.
func (g *loneGateway) ask() (status int, header http.Header) {
	request, _ := http.NewRequest(http.MethodPost, "http://"+g.api+"/v1/chat/completions", strings.NewReader(`{"model":"mete","max_tokens":8,"messages":[{"role":"user","content":"hello"}]}`))
	request.Header.Set("Authorization", "Bearer "+poolKey)
	request.Header.Set("Content-Type", "application/json")
	response, err := g.client.Do(request)
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Header
}

// latencies sends n requests, four at a time, and returns their times, sorted,
// and how many did not succeed.
func (g *loneGateway) latencies(n int) (all []time.Duration, failed int) {
	g.Helper()
	var (
		mu    sync.Mutex
		work  sync.WaitGroup
		kinds = map[int]int{} // by status
	)
	for range 4 {
		work.Go(func() {
			for range n / 4 {
				began := time.Now()
				status, _ := g.ask()
				took := time.Since(began)
				mu.Lock()
				all = append(all, took)
				if kinds[status]++; status != 200 {
					failed++
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	slices.Sort(all)
	if failed > 0 {
		g.Logf("answers by status: %v", kinds)
	}
	return all, failed
}

func (g *loneGateway) get(path string) string {
	response, err := g.client.Get("http://" + g.admin + path)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return string(text)
}

// metric is the value of a gauge.
func (g *loneGateway) metric(name string) int {
	found := regexp.MustCompile(`(?m)^` + name + ` ([0-9.e+]+)$`).FindStringSubmatch(g.get("/metrics"))
	if found == nil {
		return -1
	}
	value, _ := strconv.ParseFloat(found[1], 64)
	return int(value)
}

// rss is the resident memory of the process in MiB.
func (g *loneGateway) rss() int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.cmd.Process.Pid))
	found := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(text)
	if found == nil {
		return -1
	}
	kib, _ := strconv.Atoi(string(found[1]))
	return kib >> 10
}

func (g *loneGateway) eventually(what string, limit time.Duration, ok func() bool) {
	g.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			g.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// slowKinds are the ways to be slow: what is sent at first, and then a byte of
// it now and then. Nothing is read.
var slowKinds = []struct{ name, first, then string }{
	{"headers", "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Slow: ", "a"},
	{"bodies", "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + poolKey + "\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n" + `{"model":"mete","user":"` + strings.Repeat("u", 2000), "a"},
	{"readers", slowStream, ""},
}

const slowBody = `{"model":"mete","stream":true,"max_tokens":1200,"min_tokens":1200,"messages":[{"role":"user","content":"hello"}]}`

var slowStream = fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", poolKey, len(slowBody), slowBody)

// TestSlowClientsHoldUpNobody has thousands of clients be slow at once, in one
// way after the other: beside them others are answered as before, and the
// gateway rids itself of all of them.
func TestSlowClientsHoldUpNobody(t *testing.T) {
	n, asked, slow := 250, 400, "3s"
	if *long {
		n, asked, slow = 8000, 4000, "40s"
	}
	g := startLone(t, fmt.Sprintf("bounds: {replica_connections: 20000}\ntimeouts: {header: %s, body: %s, write: %s, keep_alive: 5s}\n", slow, slow, slow))
	if status, _ := g.ask(); status != 200 {
		t.Fatalf("status %d", status)
	}
	alone, failed := g.latencies(asked)
	if failed > 0 {
		t.Fatalf("%d requests failed beside nobody", failed)
	}
	t.Logf("alone: p50 %v, p99 %v, %d MiB", alone[len(alone)/2], alone[len(alone)*99/100], g.rss())
	for _, kind := range slowKinds {
		crowd := g.crowd(n, kind.first)
		g.eventually("all are in", time.Minute, func() bool { return g.metric("mete_client_connections") >= n })
		stop := crowd.trickle(kind.then)
		g.awaitStill()
		beside, failed := g.latencies(asked)
		rss, held := g.rss(), g.metric("mete_client_connections")
		t.Logf("beside %d slow %s (%d held at the end): p50 %v, p99 %v, %d MiB, kernel %s", n, kind.name, held, beside[len(beside)/2], beside[len(beside)*99/100], rss, kernelMemory())
		if failed > 0 {
			t.Errorf("%d of %d requests beside slow %s failed", failed, asked, kind.name)
		}
		if p99 := beside[len(beside)*99/100]; p99 > 5*time.Second { // a busy machine is slow by itself
			t.Errorf("the p99 beside slow %s is %v", kind.name, p99)
		}
		g.eventually("the slow are gone", 90*time.Second, func() bool {
			return g.metric("mete_client_connections") < 50 && g.metric("mete_in_flight") == 0
		})
		stop()
		crowd.close()
	}
	g.eventually("bodies are given back", 10*time.Second, func() bool { return g.metric("mete_body_bytes") == 0 })
	t.Logf("afterwards: %d MiB", g.rss())
}

// kernelMemory is what all sockets of the machine hold, of both ends.
func kernelMemory() string {
	text, _ := os.ReadFile("/proc/net/sockstat")
	found := regexp.MustCompile(`TCP:.* mem (\d+)`).FindSubmatch(text)
	if found == nil {
		return "unknown"
	}
	pages, _ := strconv.Atoi(string(found[1]))
	return fmt.Sprintf("%d MiB", pages*os.Getpagesize()>>20)
}

// awaitStill waits until the simulated replica has written what it can: its
// work is no part of the measurement.
func (g *loneGateway) awaitStill() {
	last, since := kernelMemory(), time.Now()
	g.eventually("nothing moves", 30*time.Second, func() bool {
		if now := kernelMemory(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 500*time.Millisecond
	})
}

type crowd []net.Conn

// crowd opens n connections and sends the same on each.
func (g *loneGateway) crowd(n int, first string) crowd {
	g.Helper()
	made := make(crowd, 0, n)
	for range n {
		c, err := net.Dial("tcp", g.api)
		if err != nil {
			g.Fatal(err)
		}
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		if _, err := io.WriteString(c, first); err != nil {
			g.Fatal(err)
		}
		made = append(made, c)
	}
	g.Cleanup(made.close)
	return made
}

// trickle sends text on each connection twice a second until stop is called.
func (c crowd) trickle(text string) (stop func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				for _, conn := range c {
					_, _ = io.WriteString(conn, text)
				}
			}
		}
	}()
	return func() { close(ended); <-done }
}

func (c crowd) close() {
	for _, conn := range c {
		_ = conn.Close()
	}
}
