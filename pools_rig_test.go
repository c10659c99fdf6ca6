package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"mete/balancer"
	"mete/bench/sim"
	"mete/config"
)

// poolKey is a static key without limits, for tests of what lies behind it.
const poolKey = "sk-mete-0123456789abcdef0123456789abcdef01234567"

// site is one gateway with replicas that the test may kill.
type site struct {
	*testing.T
	*running
	log    *syncBuffer
	client *http.Client
	stop   func() // ends the gateway and waits for it; once
}

// siteConfig is a gateway's with one model, mete, on the pool general, which
// has no replicas yet.
func siteConfig() *config.Config {
	cfg := tryItConfig()
	cfg.Log.Level = "info"
	cfg.Listen = config.Listen{API: "127.0.0.1:0", Admin: "127.0.0.1:0"}
	cfg.Plans["open"] = config.DefaultPlan()
	cfg.Keys = []config.Key{{Name: "tests", Owner: "tests", Plan: "open", SHA256: sha256.Sum256([]byte(poolKey))}}
	return cfg
}

func withPool(cfg *config.Config, change func(*config.Pool)) *config.Config {
	pool := cfg.Pools["general"]
	change(&pool)
	cfg.Pools["general"] = pool
	return cfg
}

func startSite(t *testing.T, cfg *config.Config) *site {
	t.Helper()
	s := &site{T: t, log: &syncBuffer{}, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}, Timeout: time.Minute}}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan *running, 1), make(chan error, 1)
	go func() {
		done <- run(ctx, cfg, zerolog.New(s.log), func(r *running) error { ready <- r; return nil })
	}()
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
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		s.stop()
		if t.Failed() {
			t.Logf("the gateway's log:\n%.4000s", s.log)
		}
	})
	return s
}

func startSim(t *testing.T, c sim.Config) *sim.Replica {
	t.Helper()
	if c.Models == nil {
		c.Models = []string{"mete"}
	}
	var r *sim.Replica
	var err error
	for range 100 { // the address of a replica that was killed may not be free at once
		if r, err = sim.Start(c); err == nil {
			t.Cleanup(func() { _ = r.Close() })
			return r
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal(err)
	return nil
}

// answer is how a request looked to its client.
type answer struct {
	status   int
	replica  string // who answered
	attempts string
	body     string
	err      error // of the transport
}

// brokenBeforeFirstByte: the request failed while nothing had been sent.
func (a *answer) brokenBeforeFirstByte() bool { return a.status != http.StatusOK }

// told reports whether a stream that began told its client how it ended.
func (a *answer) told() bool {
	return a.err != nil || strings.HasSuffix(a.body, "data: [DONE]\n\n") || strings.Contains(a.body, `data: {"error":`)
}

func (a *answer) whole() bool {
	return a.err == nil && a.status == http.StatusOK && !strings.Contains(a.body, `data: {"error":`)
}

func (s *site) ask(body string) answer { return s.askAt(s.api.Addr().String(), body) }

func (s *site) askAt(address, body string) answer {
	request, err := http.NewRequest(http.MethodPost, "http://"+address+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	request.Header.Set("Authorization", "Bearer "+poolKey)
	request.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header.Get("X-Mete-Replica"), response.Header.Get("X-Mete-Attempts"), string(b), err}
}

// at sends requests at a rate until stop is closed, whatever becomes of them,
// and hands each answer to note, one at a time.
func (s *site) at(rate int, body func(i int) string, stop <-chan struct{}, note func(answer)) (sent int) {
	var mu sync.Mutex
	var work sync.WaitGroup
	defer work.Wait()
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for ; ; sent++ {
		select {
		case <-stop:
			return sent
		case <-tick.C:
		}
		text := body(sent)
		work.Go(func() {
			a := s.ask(text)
			mu.Lock()
			defer mu.Unlock()
			note(a)
		})
	}
}

// traffic is requests under way in the background.
type traffic struct {
	failed, cut, silent, whole atomic.Int64
	sent                       int
	kinds                      map[string]int // of failures
	end                        func()         // waits for all answers; once
}

func (s *site) load(rate int, body func(i int) string) *traffic {
	l, stop, done := &traffic{kinds: map[string]int{}}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		l.sent = s.at(rate, body, stop, func(a answer) {
			switch {
			case a.brokenBeforeFirstByte():
				l.failed.Add(1)
				l.kinds[fmt.Sprintf("%d %.200s %v", a.status, a.body, a.err)]++
			case a.whole():
				l.whole.Add(1)
			case a.told():
				l.cut.Add(1)
			default:
				l.silent.Add(1)
			}
		})
	}()
	l.end = sync.OnceFunc(func() { close(stop); <-done })
	s.Cleanup(l.end)
	return l
}

func askBody(i int, stream bool) string {
	return fmt.Sprintf(`{"model":"mete","stream":%v,"max_tokens":20,"messages":[{"role":"user","content":"question %d"}]}`, stream, i)
}

// eventually waits for what happens in its own time.
func (s *site) eventually(what string, within time.Duration, ok func() bool) (after time.Duration) {
	s.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > within {
			s.Fatalf("%s: not after %v", what, within)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(began)
}

// urls are the replicas that the pool knows, sorted.
func (s *site) urls() []string {
	var urls []string
	for _, r := range s.pools()["general"].Replicas() {
		urls = append(urls, r.URL)
	}
	slices.Sort(urls)
	return urls
}

// eligible reports whether the pool would send a request to the replica.
func (s *site) eligible(id string) bool {
	for _, c := range s.pools()["general"].Explain(balancer.Need{}).Candidates {
		if c.ID == id {
			return c.Eligible
		}
	}
	return false
}

func (s *site) admin(path string, into any) int {
	s.Helper()
	response, err := s.client.Get("http://" + s.running.admin.Addr().String() + path)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, ok := into.(*string); ok {
		b, err := io.ReadAll(response.Body)
		if err != nil {
			s.Fatal(err)
		}
		*text = string(b)
	} else if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		s.Fatal(err)
	}
	return response.StatusCode
}
