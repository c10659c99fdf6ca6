package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mete/bench/sim"
)

// TestEverythingAtOnce: faults of the replica, Redis frozen and killed, reloads,
// restarts and clients that leave, under load. Every answer that looks complete
// is compared byte by byte with what the replica sends. In the end nothing is
// left: no request, and no goroutine, descriptor or memory beyond the first
// process's own.
func TestEverythingAtOnce(t *testing.T) {
	if !*long {
		t.Skip("it takes minutes: see make torture")
	}
	length := 10 * time.Minute
	if text := os.Getenv("METE_CHAOS"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	g := startGateway(t, nil)
	warm := g.load(10)
	<-time.After(3 * time.Second)
	warm.Stop()
	before := g.resources()

	session := g.load(10)
	ctx, stop := context.WithTimeout(context.Background(), length)
	defer stop()
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() { g.leaveUntil(ctx) })
	}
	counts := g.trouble(ctx)
	work.Wait()
	result := session.Stop()
	t.Logf("%v of %v; answers %v, of which %d were compared", length, counts, result.Codes, result.Counters.Verified)
	if n := result.Counters.Mismatched; n > 0 {
		t.Errorf("%d answers were wrong", n)
	}
	if result.Codes["timeout"] > 0 || result.Counters.Verified < 100 {
		t.Error("requests were stuck, or hardly any was answered")
	}
	s := &site{T: t, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	s.eventually("an answer", 30*time.Second, func() bool { a := s.askAt(g.api, askBody(1, true)); return a.whole() })
	s.eventually("that nothing is left", time.Minute, func() bool {
		after := g.resources()
		return after[0] == 0 && after[1] <= before[1]+20 && after[2] <= before[2]+20 && after[3] <= 2*before[3]
	})
	t.Logf("in flight, goroutines, descriptors, bytes: before %.0f, after %.0f", before, g.resources())
}

// resources are in-flight exchanges, goroutines, descriptors and resident bytes.
func (g *gatewayProcess) resources() (now [4]float64) {
	response, err := http.Get("http://" + g.admin + "/metrics")
	if err != nil {
		g.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		g.Fatal(err)
	}
	for i, name := range []string{"mete_in_flight", "go_goroutines", "process_open_fds", "process_resident_memory_bytes"} {
		_, rest, _ := strings.Cut(string(page), "\n"+name+" ")
		if _, err := fmt.Sscan(rest, &now[i]); err != nil {
			g.Fatalf("%s: %v", name, err)
		}
	}
	return now
}

// trouble makes one kind after another, and counts them.
func (g *gatewayProcess) trouble(ctx context.Context) map[string]int {
	counts := map[string]int{}
	faults := []string{"status; code=500; times=5", "cut; at=700; times=5", "queue_full; times=5", "error; after=2; times=5", "refuse; for=300ms", "slow; factor=2; pause=5ms; times=20"}
	text, err := os.ReadFile(g.file)
	if err != nil {
		g.Fatal(err)
	}
	kinds := []string{"fault", "fault", "frozen redis", "killed redis", "reload", "restart"}
	for i := 0; ctx.Err() == nil; i++ {
		kind := kinds[rand.IntN(len(kinds))]
		counts[kind]++
		switch kind {
		case "fault":
			fault, err := sim.ParseFault(faults[rand.IntN(len(faults))])
			if err != nil {
				g.Fatal(err)
			}
			if err := g.replica.SetFault(fault); err != nil {
				g.Fatal(err)
			}
		case "frozen redis":
			g.store.Pause()
			<-time.After(time.Duration(rand.IntN(3000)) * time.Millisecond)
			g.store.Continue()
		case "killed redis":
			g.store.Kill()
			<-time.After(time.Duration(rand.IntN(1000)) * time.Millisecond)
			g.store.Restart()
		case "reload":
			next := strings.Replace(string(text), "requests: 100000,", fmt.Sprintf("requests: %d,", 100000+i), 1)
			if err := os.WriteFile(g.file, []byte(next), 0o600); err != nil {
				g.Fatal(err)
			}
			<-time.After(1500 * time.Millisecond)
		case "restart":
			if err := syscall.Kill(g.pids[len(g.pids)-1], syscall.SIGUSR2); err != nil {
				g.Fatal(err)
			}
			g.awaitReady()
			g.await("stopped")
		}
		<-time.After(300 * time.Millisecond)
	}
	return counts
}

// leaveUntil asks again and again, and leaves at any time.
func (g *gatewayProcess) leaveUntil(ctx context.Context) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for i := 0; ctx.Err() == nil; i++ {
		asking, leave := context.WithTimeout(ctx, time.Duration(1+rand.IntN(30))*time.Millisecond)
		request, err := http.NewRequestWithContext(asking, http.MethodPost, "http://"+g.api+"/v1/chat/completions", strings.NewReader(askBody(i, i%2 == 0)))
		if err != nil {
			g.Error(err)
		}
		request.Header.Set("Authorization", "Bearer "+poolKey)
		request.Header.Set("Content-Type", "application/json")
		if response, err := client.Do(request); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
		leave()
		<-time.After(20 * time.Millisecond)
	}
}
