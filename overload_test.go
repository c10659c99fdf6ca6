package main

import (
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestAGatewayBeyondItsMeansComesBack floods a gateway that may open 300 files
// with more clients than that: what it cannot take it refuses, it says all the
// while that it is alive, and afterwards it answers as before.
func TestAGatewayBeyondItsMeansComesBack(t *testing.T) {
	length := 2 * time.Second
	if *long {
		length = 20 * time.Second
	}
	g := startLone(t, "timeouts: {header: 2s}\nbounds: {connections_per_address: 1000000}\n", "sh", "-c", `ulimit -n 300; exec "$0" "$@"`)
	if status, _ := g.ask(); status != 200 {
		t.Fatalf("status %d", status)
	}
	var answered, shed, cut, other atomic.Int64
	flood := g.flood(400, length, func(status int, header http.Header) {
		switch after, err := strconv.Atoi(header.Get("retry-after")); {
		case status == 200:
			answered.Add(1)
		case status == 503 && err == nil && after >= 1:
			shed.Add(1)
		case status == 0:
			cut.Add(1)
		default:
			other.Add(1)
		}
	})
	idle := g.idlers(400) // and as many that say nothing
	well := 0
	for began := time.Now(); time.Since(began) < length; well++ {
		if g.get("/healthz") != "ok\n" {
			t.Fatalf("not alive after %v of overload", time.Since(began))
		}
	}
	flood()
	idle.close()
	t.Logf("%d answered, %d refused with 503 and retry-after, %d cut, %d anything else; /healthz answered %d times; %d MiB",
		answered.Load(), shed.Load(), cut.Load(), other.Load(), well, g.rss())
	if answered.Load() == 0 || shed.Load() == 0 || other.Load() > 0 {
		t.Error("want some answered, some refused, and nothing else")
	}
	g.eventually("it answers again", 20*time.Second, func() bool { status, _ := g.ask(); return status == 200 })
	if _, failed := g.latencies(200); failed > 0 {
		t.Errorf("%d of 200 requests failed afterwards", failed)
	}
	if g.metric("mete_in_flight") != 0 {
		t.Errorf("%d requests hang", g.metric("mete_in_flight"))
	}
}

// flood asks from n clients, each over a new connection each time, until the
// time is up and end is called.
func (g *loneGateway) flood(n int, length time.Duration, note func(int, http.Header)) (end func()) {
	each := *g
	each.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	var work sync.WaitGroup
	until := time.Now().Add(length)
	for range n {
		work.Go(func() {
			for time.Now().Before(until) {
				note(each.ask())
			}
		})
	}
	return work.Wait
}

// idlers opens connections and says nothing; those that are cut are no matter.
func (g *loneGateway) idlers(n int) crowd {
	var made crowd
	for range n {
		if c, err := net.DialTimeout("tcp", g.api, 5*time.Second); err == nil {
			made = append(made, c)
		}
	}
	g.Cleanup(made.close)
	return made
}
