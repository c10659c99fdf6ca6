package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"mete/bench/sim"
)

// TestEventIsNotHeldBackWhereTheStreamHasALength: only chunks are flushed one
// by one, so the client must get chunks.
func TestEventIsNotHeldBackWhereTheStreamHasALength(t *testing.T) {
	release := make(chan struct{})
	event := events("\n", textChunk)
	r := newRig(t, withScript(func(q *sim.Request, c net.Conn) error {
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", 2*len(event), event)
		select {
		case <-release:
		case <-q.Gone():
			return io.EOF
		}
		_, err := io.WriteString(c, event)
		return err
	}))
	ctx, cancel := context.WithTimeout(context.Background(), rawWait)
	defer cancel()
	response, err := r.client.Do(r.request("/v1/chat/completions", streamBody).WithContext(ctx))
	if err != nil {
		t.Fatal("the first event was held back:", err)
	}
	defer func() { _ = response.Body.Close() }()
	br := bufio.NewReader(response.Body)
	if line, err := br.ReadString('\n'); err != nil || line != textChunk+"\n" {
		t.Errorf("got %q, %v", line, err)
	}
	close(release)
	if rest, err := io.ReadAll(br); err != nil || string(rest) != "\n"+event {
		t.Errorf("then came %q, %v", rest, err)
	}
}

// TestCutBehindTheEndOfAStreamIsNoFailure: behind [DONE] nothing is missing,
// and an error event there would be read as one.
func TestCutBehindTheEndOfAStreamIsNoFailure(t *testing.T) {
	stream := events("\n", textChunk, doneChunk)
	r := newRig(t, withScript(func(_ *sim.Request, c net.Conn) error {
		_, _ = io.WriteString(c, streamHead+chunk(stream))
		return io.EOF
	}))
	got, err := io.ReadAll(r.post("/v1/chat/completions", streamBody).Body)
	if string(got) != stream || err == nil {
		t.Errorf("got %q, %v: want the stream and a cut", got, err)
	}
	r.awaitIdle()
	r.wantCounted("attempts_total", map[string]float64{"success general": 1})
	r.wantCounted("answers_cut_total", map[string]float64{})
	if line := r.log.String(); strings.Contains(line, `"fault"`) {
		t.Error(line)
	}
}

// TestAttemptThatFailedLeavesNothingBehind: the first replica sends an error
// and [DONE], the second is cut after an event. That end is no good one.
func TestAttemptThatFailedLeavesNothingBehind(t *testing.T) {
	var n atomic.Int64
	failed, cut := events("\n", errorChunk, doneChunk), events("\n", textChunk)
	r := newRig(t, withReplicas(2, sim.Config{Script: func(q *sim.Request, c net.Conn) error {
		if n.Add(1) == 1 {
			return answering(streamHead+chunk(failed)+lastChunk)(q, c)
		}
		_, _ = io.WriteString(c, streamHead+chunk(cut))
		return io.EOF
	}}))
	got, err := io.ReadAll(r.post("/v1/chat/completions", streamBody).Body)
	if string(got) != cut+string(replicaCutEvent) || err == nil {
		t.Errorf("got %q, %v", got, err)
	}
	r.awaitIdle()
	r.wantCounted("attempts_total", map[string]float64{"replica_fault general": 2})
	r.wantCounted("answers_cut_total", map[string]float64{"replica": 1})
}
