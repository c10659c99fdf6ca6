package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"), // sleeps a second, then ends
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),             // one per process, for ever
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),          // sleeps, then ends
		goleak.IgnoreAnyFunction("os/signal.loop"),                                                 // one per process, for ever
	)
}

// trial is a gateway in try-it mode, started as a user would, on free ports.
type trial struct {
	*testing.T
	base, key, curl  string
	admin, tokenFile string
	output           *syncBuffer
	client           *http.Client
}

// startTrial runs `mete serve` in this process and waits until it has greeted.
func startTrial(t *testing.T, args ...string) *trial {
	t.Helper()
	tr := &trial{T: t, output: &syncBuffer{}, client: &http.Client{Transport: &http.Transport{}}}
	ctx, cancel := context.WithCancel(context.Background())
	pipe, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		root := rootCommand()
		root.SetArgs(append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--console-listen", "127.0.0.1:0"}, args...))
		root.SetOut(io.MultiWriter(tr.output, out))
		err := root.ExecuteContext(ctx)
		_ = out.Close()
		done <- err
	}()
	t.Cleanup(func() {
		tr.client.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error("serve:", err)
		}
	})
	tr.readGreeting(pipe)
	go func() { _, _ = io.Copy(io.Discard, pipe) }()
	return tr
}

func (tr *trial) readGreeting(r io.Reader) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		name, value, _ := strings.Cut(line, "=")
		switch {
		case name == "OPENAI_BASE_URL":
			tr.base = value
		case name == "OPENAI_API_KEY":
			tr.key = value
		case strings.HasPrefix(line, "curl "):
			tr.curl = line
		case strings.HasPrefix(line, "More keys:"):
			_, rest, _ := strings.Cut(line, "--admin ")
			tr.admin, tr.tokenFile, _ = strings.Cut(rest, " --token-file ")
		case strings.HasPrefix(line, "Metrics:"):
			return
		}
	}
	tr.Fatalf("no greeting: %s", tr.output)
}

// mete runs a command in this process and returns what it printed.
func mete(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errs)
	err = root.ExecuteContext(ctx)
	return out.String(), errs.String(), err
}

func (tr *trial) get(path, key string) (int, string) {
	tr.Helper()
	request, err := http.NewRequest(http.MethodGet, path, nil)
	if err != nil {
		tr.Fatal(err)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := tr.client.Do(request)
	if err != nil {
		tr.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		tr.Fatal(err)
	}
	return response.StatusCode, string(b)
}

func TestTryItPrintsALineThatStreamsAnAnswer(t *testing.T) {
	tr := startTrial(t)
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "sh", "-c", tr.curl).Output()
	if err != nil || !strings.HasPrefix(string(out), "data: {") || !strings.HasSuffix(string(out), "data: [DONE]\n\n") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestKeysAreMadeUsedAndRevoked(t *testing.T) {
	tr := startTrial(t)
	ctx := context.Background()
	flags := []string{"--admin", tr.admin, "--token-file", tr.tokenFile}
	out, _, err := mete(ctx, append([]string{"keys", "create", "--plan", "try", "--name", "laptop", "--owner", "ann"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	key := strings.TrimSpace(out)
	status, body := tr.get(tr.base+"/auth/key", key)
	if status != 200 || !strings.Contains(body, `"owner":"ann"`) || !strings.Contains(body, `"kind":"requests","limit":6000`) {
		t.Errorf("whoami: %d %s", status, body)
	}
	_, rest, _ := strings.Cut(body, `"id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	if _, _, err := mete(ctx, append([]string{"keys", "revoke", id}, flags...)...); err != nil {
		t.Fatal(err)
	}
	if status, body := tr.get(tr.base+"/auth/key", key); status != 401 || !strings.Contains(body, "revoked_api_key") {
		t.Errorf("after the revocation: %d %s", status, body)
	}
	if status, _ := tr.get(tr.base+"/auth/key", tr.key); status != 200 {
		t.Errorf("another key: %d", status)
	}
}

func TestUsageIsRecorded(t *testing.T) {
	tr := startTrial(t)
	ctx := context.Background()
	client := sdkClient(tr)
	answer, err := client.Chat.Completions.New(ctx, ask("hello"))
	if err != nil {
		t.Fatal(err)
	}
	flags := []string{"usage", "--admin", tr.admin, "--token-file", tr.tokenFile}
	want := fmt.Sprintf("mete   1         0        %d", answer.Usage.PromptTokens)
	awaitOutput(t, flags, want)
	out, _, err := mete(ctx, append(flags, "--csv", "--owner", "you")...)
	if err != nil || !strings.HasPrefix(out, "hour,owner,key,model,") || strings.Count(out, "\n") != 2 {
		t.Errorf("%s, %v", out, err)
	}
	out, _, err = mete(ctx, append(flags, "--json", "--owner", "nobody")...)
	if err != nil || out != "[]\n" {
		t.Errorf("%s, %v", out, err)
	}
}

// awaitOutput runs a command until it prints want: the usage record is written
// once a second.
func awaitOutput(t *testing.T, args []string, want string) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for {
		out, _, err := mete(context.Background(), args...)
		if err == nil && strings.Contains(out, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v\n%s\nwant %q", err, out, want)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestKeyRevokesItself(t *testing.T) {
	tr := startTrial(t)
	request, err := http.NewRequest(http.MethodDelete, tr.base+"/auth/key", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+tr.key)
	response, err := tr.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if status, _ := tr.get(tr.base+"/auth/key", tr.key); response.StatusCode != 200 || status != 401 {
		t.Errorf("DELETE %d, then %d", response.StatusCode, status)
	}
}

func TestAdminListener(t *testing.T) {
	tr := startTrial(t)
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz": "ready", "/metrics": "mete_requests_total", "/debug/pprof/": "goroutine",
	} {
		status, body := tr.get(tr.admin+path, "")
		if path == "/metrics" {
			tr.get(tr.base+"/models", "")
			want = "mete_in_flight"
		}
		if status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.200s", path, status, body)
		}
	}
	if status, body := tr.get(tr.admin+"/admin/keys", "wrong"); status != 401 || !strings.Contains(body, "invalid_admin_token") {
		t.Errorf("keys with a wrong token: %d %s", status, body)
	}
}

func TestServeSaysWhatToChange(t *testing.T) {
	taken := startTrial(t)
	address := strings.TrimSuffix(strings.TrimPrefix(taken.base, "http://"), "/v1")
	_, _, err := mete(context.Background(), "serve", "--listen", address, "--admin-listen", "127.0.0.1:0", "--console-listen", "127.0.0.1:0")
	if err == nil || !strings.Contains(err.Error(), "address already in use; choose others") {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(file, []byte("modles: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err = mete(context.Background(), "serve", "--config", file)
	if err == nil || !strings.Contains(err.Error(), "bad.yaml:1:1: ") || !strings.Contains(err.Error(), `"models"`) {
		t.Error(err)
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"check", "--help"}, {"keys", "--help"}, {"sim", "--help"}, {"version"}, {"completion", "bash"}} {
		out, _, err := mete(context.Background(), args...)
		if err != nil || len(out) < len("mete dev") {
			t.Errorf("%v: %q, %v", args, out, err)
		}
	}
}

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.b.String())
}
