package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSimCommandServesUntilItsContextEnds(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	cmd := simCommand()
	cmd.SetOut(in)
	cmd.SetArgs([]string{"--listen", "127.0.0.1:0", "--model", "m", "--itl", "1ms", "--api-key-file", key, "--fault", "dead; for=1h"})
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]int{"/health": 503, "/v1/models": 401, "/version": 200} {
		resp, err := client.Get(strings.TrimSpace(url) + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestSimCommandRefusesWhatCannotWork(t *testing.T) {
	for _, args := range [][]string{
		{"--profile", "abacus"},
		{"--profile", "llama-3.1-8b-h100", "--itl", "1ms"},
		{"--itl", "1ms", "--spread", "2"},
		{"--itl", "1ms", "--max-num-seqs", "0"},
		{"--error-shape", "round"},
		{"--fault", "explode"},
		{"--api-key-file", "/does/not/exist"},
		{"--profile", "llama-3.1-8b-h100", "--max-model-len", "1000000"},
		{"superfluous"},
	} {
		cmd := simCommand()
		cmd.SetArgs(append([]string{"--listen", "127.0.0.1:0"}, args...))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(t.Context()); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}
