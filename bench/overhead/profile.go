package overhead

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// profile takes a processor profile of the gateway during a window, and its
// metrics and a profile of its memory at the end, when profiles are wanted. The returned function waits
// for them.
func (l *lab) profile(ctx context.Context, p *Proxy, window time.Duration) (wait func() error) {
	if l.o.Profiles == "" || p.admin == "" {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	name := filepath.Join(l.o.Profiles, fmt.Sprintf("%s-%d", l.experiment, l.round))
	go func() {
		seconds := max(1, int(window.Seconds()))
		done <- fetch(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", p.admin, seconds), name+".cpu.pprof")
	}()
	return func() error {
		if err := <-done; err != nil {
			return err
		}
		if err := fetch(ctx, "http://"+p.admin+"/metrics", name+".metrics.txt"); err != nil {
			return err
		}
		return fetch(ctx, "http://"+p.admin+"/debug/pprof/heap?gc=1", name+".heap.pprof")
	}
}

func fetch(ctx context.Context, url, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("profile: %s", resp.Status)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, resp.Body)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}
