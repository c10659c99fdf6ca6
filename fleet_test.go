package main

import (
	"bytes"
	"context"
	"flag"
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

	"mete/auth"
	"mete/auth/redistest"
	"mete/bench/sim"
	"mete/config"
)

// long makes the measurements that the README quotes in their full length.
var long = flag.Bool("long", false, "run the long form of the measurements")

// fleet is several gateways that share one Redis and two replicas.
type fleet struct {
	*testing.T
	store    *redistest.Server
	gateways []*running
	log      *syncBuffer
	client   *http.Client
}

func startFleet(t *testing.T, n int, change func(*config.Config)) *fleet {
	t.Helper()
	f := &fleet{T: t, store: redistest.Start(t), log: &syncBuffer{}, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	cfg := fleetConfig(t)
	cfg.Redis.URL = config.Secret("redis://" + f.store.Addr())
	cfg.Redis.Timeout, cfg.Redis.ConnectTimeout = 2*time.Second, 2*time.Second // a busy machine is not a Redis that is away
	if change != nil {
		change(cfg)
	}
	for range n {
		ctx, stop := context.WithCancel(context.Background())
		ready, done := make(chan *running, 1), make(chan error, 1)
		go func() {
			done <- run(ctx, cfg, zerolog.New(f.log), func(r *running) error { ready <- r; return nil })
		}()
		select {
		case r := <-ready:
			f.gateways = append(f.gateways, r)
		case err := <-done:
			stop()
			t.Fatal(err)
		}
		t.Cleanup(func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(f.client.CloseIdleConnections)
	return f
}

// fleetConfig is try-it mode's, with what several gateways must agree on.
func fleetConfig(t *testing.T) *config.Config {
	t.Helper()
	cfg := tryItConfig()
	cfg.Log.Level = "info"
	cfg.Listen = config.Listen{API: "127.0.0.1:0", Admin: "127.0.0.1:0"}
	cfg.Keystore = config.Keystore{
		AdminToken: "an-admin-token-of-the-tests",
		Peppers:    []config.Pepper{{Version: 1, Secret: "a pepper that only the tests know 0123"}},
	}
	cfg.Plans["open"] = config.DefaultPlan()
	pool := cfg.Pools["general"]
	for range 2 {
		replica, err := sim.Start(sim.Config{Models: []string{"mete"}, OutputTokens: 4})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = replica.Close() })
		pool.Replicas = append(pool.Replicas, replica.URL())
	}
	cfg.Pools["general"] = pool
	return cfg
}

func (f *fleet) createKey(name, plan string) (key, id string) {
	f.Helper()
	key, made, err := f.gateways[0].keys.Create(context.Background(), auth.Request{Name: name, Owner: name, Plan: plan, Origin: auth.FromCLI})
	if err != nil {
		f.Fatal(err)
	}
	return key, made.ID
}

const helloBody = `{"model":"mete","messages":[{"role":"user","content":"hello"}]}`

// chat sends one request to gateway i and returns its status and body.
func (f *fleet) chat(i int, key, body string) (status int, text string, err error) {
	request, err := http.NewRequest(http.MethodPost, "http://"+f.gateways[i].api.Addr().String()+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := f.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	return response.StatusCode, string(b), err
}

// load has each gateway asked by some workers until stop is closed.
func (f *fleet) load(workers int, stop <-chan struct{}, each func(gateway int)) *sync.WaitGroup {
	var work sync.WaitGroup
	for i := range f.gateways {
		for range workers {
			work.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						each(i)
					}
				}
			})
		}
	}
	return &work
}

func TestRevokedKeyIsRefusedOnEveryGatewayAtOnce(t *testing.T) {
	f := startFleet(t, 3, nil)
	key, id := f.createKey("ann", "try")
	var revoked atomic.Int64 // nanoseconds; when the revocation had returned
	var before, late atomic.Int64
	stop := make(chan struct{})
	work := f.load(4, stop, func(gateway int) {
		began, asked := time.Now().UnixNano(), revoked.Load()
		status, text, err := f.chat(gateway, key, helloBody)
		switch {
		case err != nil:
			t.Error(err)
		case status == 200 && asked == 0:
			before.Add(1)
		case status == 200 && began > asked:
			late.Add(1)
		case status != 200 && !strings.Contains(text, "revoked_api_key") && status != 429:
			t.Errorf("%d %s", status, text)
		}
	})
	waitUntil(t, func() bool { return before.Load() > 200 })
	if _, err := f.gateways[0].keys.Revoke(context.Background(), id); err != nil {
		t.Fatal(err)
	}
	revoked.Store(time.Now().UnixNano())
	after := before.Load()
	time.Sleep(300 * time.Millisecond) // long enough for some hundred requests that must be refused
	close(stop)
	work.Wait()
	t.Logf("%d requests accepted before the revocation, %d that began after it had returned", after, late.Load())
	if late.Load() != 0 {
		t.Errorf("%d requests were accepted after the revocation", late.Load())
	}
}

func waitUntil(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("timed out")
		}
	}
}

// TestRedisThatIsAwayFailsNoRequest freezes Redis, lets it go on, and kills it,
// while requests of a known caller come in.
func TestRedisThatIsAwayFailsNoRequest(t *testing.T) {
	outage, rate := 1500*time.Millisecond, 100
	if *long {
		outage, rate = 30*time.Second, 200
	}
	f := startFleet(t, 2, func(cfg *config.Config) {
		cfg.Redis.Timeout, cfg.Redis.ConnectTimeout = 50*time.Millisecond, 100*time.Millisecond
	})
	key, _ := f.createKey("ann", "open")
	for i := range f.gateways {
		waitUntil(t, func() bool { // until it knows the caller
			status, _, err := f.chat(i, key, helloBody)
			return status == 200 && err == nil
		})
	}
	for what, fail := range map[string]func(){"frozen": f.store.Pause, "killed": f.store.Kill} {
		failed, times := f.paced(key, rate, outage, fail)
		if what == "frozen" {
			f.store.Continue()
		} else {
			f.store.Restart()
		}
		slices.Sort(times)
		t.Logf("Redis %s for %v at %d requests a second: %d of %d failed, p50 %v, p99 %v, worst %v", what, outage, rate, failed, len(times),
			times[len(times)/2], times[len(times)*99/100], times[len(times)-1])
		if failed != 0 {
			t.Errorf("Redis %s: %d of %d requests failed", what, failed, len(times))
		}
		waitUntil(t, func() bool { // until Redis is asked again
			status, _, err := f.chat(0, key, helloBody)
			return err == nil && status == 200 && f.store.Client().Ping(context.Background()).Err() == nil
		})
	}
}

// paced sends requests at a rate for a while, calls fail after a fifth of it,
// and returns how many were not answered with 200, and how long each took.
func (f *fleet) paced(key string, rate int, span time.Duration, fail func()) (failed int, times []time.Duration) {
	var mu sync.Mutex
	var work sync.WaitGroup
	total := int(span.Seconds() * float64(rate) * 1.2)
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for i := range total {
		if i == total/6 {
			fail()
		}
		<-tick.C
		work.Go(func() {
			began := time.Now()
			status, text, err := f.chat(i%len(f.gateways), key, helloBody)
			mu.Lock()
			defer mu.Unlock()
			times = append(times, time.Since(began))
			if err != nil || status != 200 {
				failed++
				f.Logf("%d %s %v", status, text, err)
			}
		})
	}
	work.Wait()
	return failed, times
}

// TestNoOutputHoldsKeyMaterial goes through the life of keys, good and bad
// requests and faults, and looks for every secret in everything that came out.
func TestNoOutputHoldsKeyMaterial(t *testing.T) {
	f := startFleet(t, 2, func(cfg *config.Config) {
		pool := cfg.Pools["general"]
		pool.APIKey = "the-key-of-the-replicas"
		cfg.Pools["general"] = pool
	})
	key, id := f.createKey("ann", "try")
	var out bytes.Buffer
	say := func(status int, text string, err error) { fmt.Fprintln(&out, status, text, err) }
	const prompt = "a prompt that nobody may log"
	body := strings.Replace(helloBody, "hello", prompt, 1)
	for _, k := range []string{key, key + "0", strings.ToUpper(key), "sk-mete-" + strings.Repeat("f", 40)} {
		say(f.chat(0, k, body))
		say(f.chat(1, k, strings.Replace(body, "{", `{"sim_fault":"status; code=500",`, 1)))
		say(f.chat(1, k, strings.Replace(body, "{", `{"sim_fault":"cut; at=0",`, 1)))
		say(f.chat(0, k, strings.Replace(body, `"mete"`, `"`+k+`"`, 1)[:40]))
	}
	if _, err := f.gateways[0].keys.Revoke(context.Background(), id); err != nil {
		t.Fatal(err)
	}
	say(f.chat(0, key, body))
	f.store.Kill()
	say(f.chat(0, key, body))
	for _, g := range f.gateways {
		for _, path := range []string{"/metrics", "/readyz", "/debug/pprof/cmdline", "/admin/keys", "/admin/usage"} {
			response, err := f.client.Get("http://" + g.admin.Addr().String() + path)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(&out, response.Body)
			_ = response.Body.Close()
		}
	}
	all := out.String() + f.log.String()
	if !strings.Contains(all, `"key":"`+id) || !strings.Contains(all, "mete_requests_total") {
		t.Fatalf("the log or the metrics are not there: %s", all)
	}
	for _, secret := range []string{key, key[len("sk-mete-"):], key[len("sk-mete-") : len(key)-8], "an-admin-token", "a pepper that", "the-key-of-the", prompt} {
		if n := strings.Count(strings.ToLower(all), strings.ToLower(secret)); n != 0 {
			t.Errorf("%d hits of a secret, %.8s...", n, secret)
		}
	}
}
