package proxy

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mete/balancer"
	"mete/bench/sim"
	"mete/config"
	"mete/proxy/meter"
)

// TestTimesAreObservedOnlyWhereTheyMeanSomething: what a replica that failed
// took is no overhead of the gateway's, and what never came has no time.
func TestTimesAreObservedOnlyWhereTheyMeanSomething(t *testing.T) {
	once := map[string]float64{"": 1}
	for name, c := range map[string]struct {
		replicas  int
		script    func(n int64, c net.Conn) error // nil: nobody listens
		status    int
		overhead  map[string]float64
		firstByte float64
	}{
		"an answer": {1, func(_ int64, c net.Conn) error { return answering(jsonWire("{}"))(nil, c) }, 200, once, 1},
		"an answer of the second replica": {2, func(n int64, c net.Conn) error {
			if n == 1 {
				return io.EOF
			}
			return answering(jsonWire("{}"))(nil, c)
		}, 200, nil, 1},
		"a stream that died before its first event": {1, func(_ int64, c net.Conn) error {
			_, _ = io.WriteString(c, streamHead)
			return io.EOF
		}, 502, once, 0},
		"a replica that cannot be connected to": {1, nil, 502, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int64
			r := newRig(t, withReplicas(c.replicas, sim.Config{Script: func(_ *sim.Request, conn net.Conn) error { return c.script(n.Add(1), conn) }}))
			if c.script == nil {
				_ = r.replicas[0].Close()
			}
			if response := r.post("/v1/chat/completions", chatBody); response.StatusCode != c.status {
				t.Errorf("got %d", response.StatusCode)
			}
			r.awaitIdle()
			r.wantCounted("overhead_seconds", c.overhead)
			if got := r.counted("stage_duration_seconds")["first_byte"]; got != c.firstByte {
				t.Errorf("%v times to the first byte, want %v", got, c.firstByte)
			}
		})
	}
}

// TestSlowUploadIsNoOverhead holds the body back for a time that the gateway
// itself takes on no machine, or at least not three times in a row.
func TestSlowUploadIsNoOverhead(t *testing.T) {
	const held = 500 * time.Millisecond
	for try := 1; ; try++ {
		r := newRig(t)
		client := r.open(postHead("/v1/chat/completions") + "Transfer-Encoding: chunked\r\n\r\n")
		for deadline := time.Now().Add(rawWait); r.gateway.InFlight() == 0 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond) // a counter has no event
		}
		time.Sleep(held) // is what is measured
		client.send(chunk(chatBody) + lastChunk)
		if response := client.answer("POST"); response.StatusCode != 200 {
			t.Fatalf("got %d", response.StatusCode)
		}
		r.awaitIdle()
		r.wantCounted("overhead_seconds", map[string]float64{"": 1})
		took := r.summed("overhead_seconds")
		if took < held/2 {
			return
		}
		if try == 3 {
			t.Fatalf("%v of overhead, while the client held its body back for %v", took, held)
		}
	}
}

// summed is the sum of a histogram without labels, in seconds.
func (r *rig) summed(name string) time.Duration {
	families, err := r.registry.Gather()
	if err != nil {
		r.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "mete_"+name {
			return time.Duration(family.GetMetric()[0].GetHistogram().GetSampleSum() * float64(time.Second))
		}
	}
	r.Fatal("no metric", name)
	return 0
}

// TestSeriesGoWithTheirModelsAndPools: a model that a reload takes away has no
// series any more, and a request of it that ends later brings none back.
func TestSeriesGoWithTheirModelsAndPools(t *testing.T) {
	r := newRig(t)
	readBody(t, r.post("/v1/chat/completions", strings.Replace(streamBody, `"mete"`, `"mete-thinking"`, 1)))
	r.awaitIdle()
	gone := r.gateway.table.Load().models["mete-thinking"].metrics
	if n := r.seriesOf("mete-thinking"); n == 0 {
		t.Fatal("there are no series at all")
	}
	next := *r.gateway.table.Load().config
	next.Models = next.Models[:1]
	pools := map[string]*balancer.Pool{"general": r.gateway.table.Load().models["mete"].pool.Pool}
	if err := r.gateway.Apply(&next, pools); err != nil {
		t.Fatal(err)
	}
	gone.count(200)
	gone.count(503)
	if n := r.seriesOf("mete-thinking"); n != 0 {
		t.Errorf("%d series are left", n)
	}
	if n := r.seriesOf("mete"); n == 0 {
		t.Error("those of the other model went, too")
	}
	if err := r.gateway.Apply(r.gateway.table.Load().config, pools); err != nil {
		t.Fatal(err)
	}
}

// seriesOf counts the series that name a model.
func (r *rig) seriesOf(model string) (n int) {
	families, err := r.registry.Gather()
	if err != nil {
		r.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "model" && l.GetValue() == model {
					n++
				}
			}
		}
	}
	return n
}

func TestRequestsAreNotMeasuredWhereNobodyWantsIt(t *testing.T) {
	r := newRig(t, withConfig(func(cfg *config.Config) { cfg.Metrics.Requests = false }))
	readBody(t, r.post("/v1/chat/completions", streamBody))
	r.awaitIdle()
	for _, name := range []string{"requests_total", "http_requests_total", "request_duration_seconds", "inter_token_latency_seconds", "caller_requests_total"} {
		r.wantCounted(name, map[string]float64{})
	}
}

// TestCallersAreCountedByNameUpToABound: whoever comes later is one of the
// others, until somebody has been idle for long enough.
func TestCallersAreCountedByNameUpToABound(t *testing.T) {
	registry := prometheus.NewRegistry()
	c := newCallers(meter.NewBook(registry, false), 2)
	now := time.Unix(1e9, 0)
	for _, owner := range []string{"ann", "bob", "carl", "ann", "dora", "other"} {
		c.of(owner, now).requests.Inc()
	}
	wantOwners := func(want string) {
		t.Helper()
		var got []string
		families, _ := registry.Gather()
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if family.GetName() == "mete_caller_requests_total" {
					got = append(got, fmt.Sprint(m.GetLabel()[0].GetValue(), " ", m.GetCounter().GetValue()))
				}
			}
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("got %s, want %s", text, want)
		}
	}
	wantOwners("ann 2, bob 1, other 3")
	now = now.Add(50 * time.Minute)
	c.of("ann", now).requests.Inc()
	now = now.Add(30 * time.Minute)
	c.of("carl", now).requests.Inc()
	wantOwners("ann 3, carl 1, other 3")
	none := newCallers(meter.NewBook(prometheus.NewRegistry(), false), 0)
	if none.of("ann", now) != none.other {
		t.Error("a bound of nought names somebody")
	}
}

func TestPredictedTTFTFollowsWhatHappens(t *testing.T) {
	var f firstTokens
	now := time.Unix(1e9, 0)
	want := func(what string, least, most time.Duration) {
		t.Helper()
		if got := f.predict(now); got < least || got > most {
			t.Errorf("%s: %v, want %v to %v", what, got, least, most)
		}
	}
	want("nothing was seen yet", 0, 0)
	for range 100 { // ten a second, each after 200 ms: two wait at any time
		f.begin(now)
		now = now.Add(100 * time.Millisecond)
		f.end(200*time.Millisecond, now)
	}
	want("all is well", 190*time.Millisecond, 210*time.Millisecond)
	for range 50 {
		f.begin(now)
	}
	want("a crowd has come", 4*time.Second, 10*time.Second)
	now = now.Add(30 * time.Second)
	want("nobody is served", 30*time.Second, 30*time.Second)
	for range 50 {
		f.end(0, now)
	}
	want("the crowd has left", 0, 200*time.Millisecond)
	now = now.Add(3 * time.Minute)
	want("silence", 0, time.Millisecond)
	f.begin(now)
	want("the first in a long time", 0, 200*time.Millisecond)
	now = now.Add(2 * time.Second)
	want("and it waits", 2*time.Second, 2*time.Second)
	f.end(3*time.Second, now.Add(time.Second))
	if f.waiting != 0 {
		t.Errorf("%d wait", f.waiting)
	}
}
