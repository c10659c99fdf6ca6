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
