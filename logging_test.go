package main

import (
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

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
