package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mete/config"
)

func TestLogLosesNoLineAndMixesNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log, closeLog, err := newLogger(config.Log{Level: "info", Format: "json", File: path})
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 1000 {
				log.Info().Str("padding", strings.Repeat("x", 100)).Msg("a line")
			}
		})
	}
	work.Wait()
	log.Debug().Msg("not at this level")
	log.Warn().Msg("trouble")
	if text := read(t, path); !strings.HasSuffix(text, `"message":"trouble"}`+"\n") {
		t.Errorf("a warning waits: %q", text[max(0, len(text)-200):])
	}
	log.Info().Msg("the last")
	closeLog()
	lines := strings.Split(strings.TrimSpace(read(t, path)), "\n")
	for _, line := range lines {
		if !strings.HasPrefix(line, `{"level":"`) || !strings.HasSuffix(line, "}") || strings.Count(line, `"level"`) != 1 {
			t.Fatalf("%q", line)
		}
	}
	if len(lines) != 8002 {
		t.Errorf("%d lines, want 8002", len(lines))
	}
}

// TestLogLevelChangesWhileTheGatewayRuns, by PUT /admin/log-level.
func TestLogLevelChangesWhileTheGatewayRuns(t *testing.T) {
	t.Parallel()
	cfg := withPool(siteConfig(), func(p *config.Pool) { p.Replicas = []string{"http://" + deadAddress(t)} })
	cfg.Keystore.AdminToken = "an-admin-token-of-the-tests"
	s := startSite(t, cfg)
	put := func(token, body string) int {
		request, err := http.NewRequest(http.MethodPut, "http://"+s.running.admin.Addr().String()+"/admin/log-level", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := s.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	s.running.log.Debug().Msg("before")
	for body, want := range map[string]int{`{"level":"loud"}`: 400, `{"level":"disabled"}`: 400, `{"level":""}`: 400, `debug`: 400} {
		if status := put("an-admin-token-of-the-tests", body); status != want {
			t.Errorf("%s: %d, want %d", body, status, want)
		}
	}
	if status := put("somebody-else-s-token", `{"level":"debug"}`); status != 401 {
		t.Errorf("without the token: %d", status)
	}
	if status := put("an-admin-token-of-the-tests", `{"level":"debug"}`); status != 200 {
		t.Errorf("%d", status)
	}
	s.running.log.Debug().Msg("after")
	if text := s.log.String(); strings.Contains(text, "before") || !strings.Contains(text, `"message":"after"`) || !strings.Contains(text, "log level was changed") {
		t.Errorf("the log is %s", text)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
