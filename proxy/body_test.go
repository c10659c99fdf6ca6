package proxy

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"mete/bench/sim"
	"mete/config"
)

// TestBodyThatEndsEarlyReachesNoReplica, not even where its JSON is whole.
func TestBodyThatEndsEarlyReachesNoReplica(t *testing.T) {
	r := newRig(t)
	head := postHead("/v1/chat/completions")
	padded := chatBody + strings.Repeat(" ", 20_000)
	for name, wire := range map[string]string{
		"behind the JSON":         fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(chatBody)+1000, chatBody),
		"far behind the JSON":     fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(padded)+1000, padded),
		"one byte before its end": fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(padded)+1, padded),
		"inside the JSON":         fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, 20_000, `{"model":"mete","x":"`+strings.Repeat("y", 10_000)),
		"between two chunks":      head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(chatBody),
		"inside of a later chunk": head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(padded) + "8\r\n    ",
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 {
				client := r.open(wire)
				client.T = t
				_ = client.CloseWrite()
				wantError(t, client.answer("POST"), 400, "malformed_request", "")
				_ = client.Close()
			}
		})
	}
	r.awaitIdle()
	if n := r.replicas[0].Stats().Requests["/v1/chat/completions"]; n != 0 {
		t.Errorf("%d half requests reached the replica", n)
	}
}

// TestBodyThatDoesNotComeTimesOut: a short one by the header's time-out, under
// which it is read, a long one by its own.
func TestBodyThatDoesNotComeTimesOut(t *testing.T) {
	for name, c := range map[string]struct {
		header, body time.Duration
		announced    int
		sent         string
	}{
		"a short one": {50 * time.Millisecond, time.Hour, len(chatBody), "{"},
		"a long one":  {time.Minute, 50 * time.Millisecond, 100_000, strings.Repeat(" ", firstRead+1)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withConfig(func(cfg *config.Config) { cfg.Timeouts.Header, cfg.Timeouts.Body = c.header, c.body }))
			client := r.open(fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", postHead("/v1/chat/completions"), c.announced, c.sent))
			wantError(t, client.answer("POST"), 408, "request_timeout", "")
			if line := r.log.String(); !strings.Contains(line, `"code":"request_timeout"`) {
				t.Errorf("log %q", line)
			}
		})
	}
}

// TestBodyIsGivenBackOnceTheAnswerHasBegun: a stream may go on for minutes, and
// all bodies share one bound.
func TestBodyIsGivenBackOnceTheAnswerHasBegun(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, withScript(func(_ *sim.Request, c net.Conn) error {
		_, _ = io.WriteString(c, streamHead+chunk(events("\n", textChunk)))
		<-release
		_, err := io.WriteString(c, lastChunk)
		return err
	}))
	response := r.post("/v1/chat/completions", strings.Replace(streamBody, "hello", strings.Repeat("A", 2<<20), 1))
	if n := r.gateway.bodies.held.Load(); response.StatusCode != 200 || n != 0 {
		t.Errorf("status %d; the stream that runs holds %d bytes of a body that nobody needs", response.StatusCode, n)
	}
	close(release)
	readBody(t, response)
	r.awaitIdle()
	wantHeld(t, r, func(held int64) bool { return held == 0 })
}

// TestBodiesInFlightAreBounded fills the budget with bodies that are not
// finished, and expects the next to be refused and everything to be given back.
func TestBodiesInFlightAreBounded(t *testing.T) {
	r := newRig(t, withConfig(func(cfg *config.Config) {
		cfg.Bounds.Body, cfg.Bounds.BodiesInFlight = 128<<10, 256<<10
	}))
	var writers []*io.PipeWriter
	started := make(chan struct{}, 8)
	for range 2 {
		read, write := io.Pipe()
		writers = append(writers, write)
		request := r.request("/v1/chat/completions", "")
		request.Body, request.ContentLength = read, 100<<10
		go func() {
			response, err := r.client.Do(request)
			if err == nil {
				_ = response.Body.Close()
			}
			started <- struct{}{}
		}()
		if _, err := write.Write(make([]byte, 90<<10)); err != nil {
			t.Fatal(err)
		}
	}
	wantHeld(t, r, func(held int64) bool { return held >= 2*90<<10 })
	wantError(t, r.post("/v1/chat/completions", strings.Replace(chatBody, "hello", strings.Repeat("x", 100<<10), 1)), 503, "gateway_overloaded", "")
	for _, w := range writers {
		_ = w.CloseWithError(io.ErrUnexpectedEOF)
		<-started
	}
	r.awaitIdle()
	wantHeld(t, r, func(held int64) bool { return held == 0 })
}

func wantHeld(t *testing.T, r *rig, ok func(int64) bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok(r.gateway.bodies.held.Load()) {
		if time.Now().After(deadline) {
			t.Fatalf("bodies hold %d bytes", r.gateway.bodies.held.Load())
		}
		time.Sleep(time.Millisecond) // a counter has no event
	}
}
