package proxy

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"mete/bench/sim"
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
