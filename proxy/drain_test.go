package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"mete/bench/sim"
)

// TestGatewayThatStopsLetsStreamsEnd: what runs is waited for.
func TestGatewayThatStopsLetsStreamsEnd(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, withScript(func(req *sim.Request, c net.Conn) error {
		text := events("\n", textChunk)
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(text), text)
		select {
		case <-release:
		case <-req.Gone():
			return io.EOF
		}
		_, err := io.WriteString(c, "0\r\n\r\n")
		return err
	}))
	patient := r.post("/v1/chat/completions", streamBody)
	done := make(chan error, 1)
	go func() { done <- r.gateway.Shutdown(context.Background()) }()
	close(release)
	if got := readBody(t, patient); got != events("\n", textChunk) {
		t.Errorf("got %q", got)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestGatewayThatMayNotWaitCutsWithAnErrorEvent(t *testing.T) {
	r := newRig(t, withReplicas(1, sim.Config{}))
	response := r.post("/v1/chat/completions", strings.Replace(streamBody, "{", `{"sim_fault":"hang; where=event; after=2",`, 1))
	r.stopAtOnce()
	got, err := io.ReadAll(response.Body)
	if err == nil || !strings.HasSuffix(string(got), string(drainCutEvent)) {
		t.Errorf("got %q, %v", got, err)
	}
	r.awaitIdle()
}

// stopAtOnce shuts the gateway down without any patience, and expects it to cut
// one exchange.
func (r *rig) stopAtOnce() {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.gateway.Shutdown(ctx); err == nil || !strings.Contains(err.Error(), "1 exchanges were cut") {
		r.Error(err)
	}
	if n := r.gateway.InFlight(); n != 0 {
		r.Errorf("%d exchanges are still under way, not settled", n)
	}
}

// TestClientThatReadsNothingDoesNotHoldUpTheEnd fills all buffers on the way,
// until the replica cannot write any more.
func TestClientThatReadsNothingDoesNotHoldUpTheEnd(t *testing.T) {
	stuck := make(chan struct{})
	part := []byte(chunk(strings.Repeat(events("\n", textChunk), 1000)))
	r := newRig(t, withConfig(limited), withScript(func(q *sim.Request, c net.Conn) error {
		_, _ = io.WriteString(c, streamHead)
		for {
			_ = c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
			if _, err := c.Write(part); errors.Is(err, os.ErrDeadlineExceeded) {
				break
			} else if err != nil {
				return err
			}
		}
		close(stuck)
		<-q.Gone()
		return io.EOF
	}))
	r.open(postWire("/v1/chat/completions", streamBody))
	await(t, stuck)
	r.stopAtOnce()
	if requests, _, running := r.charged(); requests != 1 || running != 0 {
		t.Errorf("charged %d requests, %d still running", requests, running)
	}
}

func TestBodyThatIsSlowDoesNotHoldUpTheEnd(t *testing.T) {
	r := newRig(t)
	client := r.open(postHead("/v1/chat/completions") + "Content-Length: 100000\r\n\r\n" + strings.Repeat(" ", firstRead+1000))
	wantHeld(t, r, func(held int64) bool { return held > 0 })
	r.stopAtOnce()
	wantError(t, client.answer("POST"), 503, "shutting_down", "")
}

// TestRequestThatComesTooLateIsToldOfTheEnd, whatever it asks for: it is no
// mistake of the gateway's.
func TestRequestThatComesTooLateIsToldOfTheEnd(t *testing.T) {
	r := newRig(t)
	r.gateway.cutAll(errDraining)
	key, err := http.NewRequest(http.MethodGet, r.url+"/v1/auth/key", nil)
	if err != nil {
		t.Fatal(err)
	}
	key.Header.Set("Authorization", "Bearer "+testKey)
	long := strings.Replace(chatBody, "hello", strings.Repeat("x", 2*precheckSize), 1)
	for name, request := range map[string]*http.Request{
		"the caller's own key": key,
		"a short body":         r.request("/v1/chat/completions", chatBody),
		"a long body":          r.request("/v1/chat/completions", long),
		"a body to wait for":   r.request("/v1/chat/completions", chatBody, "Expect", "100-continue"),
	} {
		t.Run(name, func(t *testing.T) {
			response, err := r.client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			wantError(t, response, 503, "shutting_down", "")
		})
	}
}
