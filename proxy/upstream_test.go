package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"

	"mete/balancer"
	"mete/bench/sim"
	"mete/config"
)

// upstreamOnly is the connections to the one replica of the rig.
func (r *rig) upstreamOnly() *upstream {
	return r.gateway.upstreamOf(r.gateway.table.Load().models["mete"].pool.Replicas()[0])
}

// awaitRested waits until the gateway has laid a connection by; the replica's
// script may still run on it.
func (r *rig) awaitRested() *upstreamConn {
	r.Helper()
	u := r.upstreamOnly()
	for deadline := time.Now().Add(rawWait); ; time.Sleep(time.Millisecond) { // has no event
		u.mu.Lock()
		idle := u.idle
		u.mu.Unlock()
		if len(idle) > 0 {
			return idle[0]
		}
		if time.Now().After(deadline) {
			r.Fatal("no connection was kept")
		}
	}
}

// TestBytesThatNobodyAskedForAnswerNobody: read as the next request's answer,
// they would give every later caller the answer to another's request.
func TestBytesThatNobodyAskedForAnswerNobody(t *testing.T) {
	var n atomic.Int64
	rested, sent := make(chan struct{}), make(chan struct{})
	r := newRig(t, withScript(func(_ *sim.Request, c net.Conn) error {
		k := n.Add(1)
		_, err := io.WriteString(c, jsonWire(fmt.Sprintf(`{"n":%d}`, k)))
		if k == 1 {
			<-rested
			_, _ = io.WriteString(c, jsonWire(`{"n":0}`))
			close(sent)
		}
		return err
	}))
	for want := 1; want <= 4; want++ {
		if got := readBody(t, r.post("/v1/chat/completions", chatBody)); got != fmt.Sprintf(`{"n":%d}`, want) {
			t.Errorf("request %d was answered with %s", want, got)
		}
		if want > 1 {
			continue
		}
		conn := r.awaitRested()
		close(rested)
		await(t, sent)
		for deadline := time.Now().Add(rawWait); conn.silent(); time.Sleep(time.Millisecond) { // arrival has no event
			if time.Now().After(deadline) {
				t.Fatal("the bytes have not arrived")
			}
		}
	}
}

func TestConnectionThatComesBackFromAForgottenReplicaIsClosed(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, withScript(func(_ *sim.Request, c net.Conn) error {
		_, _ = io.WriteString(c, streamHead+chunk(events("\n", textChunk)))
		<-release
		_, err := io.WriteString(c, lastChunk)
		return err
	}))
	response := r.post("/v1/chat/completions", streamBody)
	replica, u := r.gateway.table.Load().models["mete"].pool.Replicas()[0], r.upstreamOnly()
	r.gateway.Forget(replica)
	close(release)
	if got := readBody(t, response); got != events("\n", textChunk) {
		t.Errorf("the exchange that still ran got %q", got)
	}
	r.awaitIdle()
	if _, ok := r.gateway.upstreams.Load(replica); ok || len(u.idle) > 0 {
		t.Errorf("the forgotten replica is remembered: %v, with %d connections", ok, len(u.idle))
	}
}

// TestEachSendingHasItsOwnID, the repetition on a fresh connection too: vLLM
// refuses an id that it still works on.
func TestEachSendingHasItsOwnID(t *testing.T) {
	ids := make(chan string, 3)
	r := newRig(t, withScript(func(q *sim.Request, c net.Conn) error {
		ids <- q.Header("x-request-id")
		if len(ids) == 2 {
			return io.EOF
		}
		return answering(jsonWire("{}"))(q, c)
	}))
	readBody(t, r.post("/v1/chat/completions", chatBody))
	r.awaitIdle()
	response := r.post("/v1/chat/completions", chatBody)
	if response.StatusCode != 200 || response.Header.Get("x-mete-attempts") != "" || len(ids) != 3 {
		t.Fatalf("status %d after %d requests, %v", response.StatusCode, len(ids), response.Header)
	}
	<-ids
	if first, second := <-ids, <-ids; first == second || first[:30] != second[:30] {
		t.Errorf("sent as %s, again as %s", first, second)
	}
}

// TestServerThatRefusesALargeBodyUnreadIsHeard, as proxies before a replica do
// it: the answer comes, then the connection breaks under the rest of the body.
func TestServerThatRefusesALargeBodyUnreadIsHeard(t *testing.T) {
	const own = `{"error":{"message":"too large","type":"x","param":null,"code":413}}`
	large := `{"model":"mete","input":"` + strings.Repeat("x ", 8<<20) + `"}`
	for name, c := range map[string]struct{ kind, text, want string }{
		"with an error of OpenAI's shape": {"application/json", own, own},
		"with a page":                     {"text/html", "<html>", `"code":"replica_refused"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withUpstream(refusingServer(t, fmt.Sprintf(
				"HTTP/1.1 413 Payload Too Large\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", c.kind, len(c.text), c.text))))
			response := r.post("/v1/embeddings", large)
			if text := readBody(t, response); response.StatusCode != 413 || !strings.Contains(text, c.want) {
				t.Errorf("got %d %s", response.StatusCode, text)
			}
			r.awaitIdle()
			r.wantCounted("attempts_total", map[string]float64{"caller_error general": 1})
		})
	}
}

// refusingServer answers from a request's head alone, and closes the connection
// after it has read a little of the body.
func refusingServer(t *testing.T, answer string) (url string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			br := bufio.NewReader(c)
			for line := ""; err == nil && line != "\r\n"; {
				line, err = br.ReadString('\n')
			}
			_, _ = io.WriteString(c, answer)
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.CopyN(io.Discard, br, 1<<20)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-ended })
	return "http://" + ln.Addr().String()
}

// TestReplicaThatCannotBeConnectedToMayBeRetried: it has not seen the request,
// however long the connecting took.
func TestReplicaThatCannotBeConnectedToMayBeRetried(t *testing.T) {
	r := refusalFor(&dialError{&net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}})
	if r.final || r.status != 502 || r.code != "replica_failed" {
		t.Errorf("%d %s, final %v", r.status, r.code, r.final)
	}
	late := refusalFor(&upstreamError{doing: "wait for answer", err: os.ErrDeadlineExceeded})
	if !late.final || late.status != 504 {
		t.Errorf("a replica that is late: %d %s, final %v", late.status, late.code, late.final)
	}
}

func TestCertificateIsCheckedForTheReplicasName(t *testing.T) {
	for name, c := range map[string]struct {
		endpoint balancer.Endpoint
		want     string
	}{
		"the URL's own":   {balancer.Endpoint{URL: "https://vllm.example.com:8443"}, "vllm.example.com"},
		"one given apart": {balancer.Endpoint{URL: "https://10.0.0.5:8443", Host: "vllm.example.com"}, "vllm.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := balancer.NewPool("p", []balancer.Endpoint{c.endpoint}, balancer.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if u := newUpstream(p.Replicas()[0], &config.Default().Timeouts, nil); u.tls.ServerName != c.want {
				t.Errorf("it is checked for %q, want %q", u.tls.ServerName, c.want)
			}
		})
	}
}

// TestReplicasHeaderIsBounded by the larger of the buffers that it is read with.
func TestReplicasHeaderIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		size   int
		status int
	}{
		"a large one of a stream":       {streamBody, answerBuffer * 3 / 4, 200},
		"a large one of a whole answer": {chatBody, answerBuffer * 3 / 4, 200},
		"too large for a stream":        {streamBody, answerBuffer, 502},
		"too large for a whole answer":  {chatBody, answerBuffer, 502},
	} {
		t.Run(name, func(t *testing.T) {
			text := events("\n", textChunk)
			head := strings.Replace(streamHead, "Transfer", "X-A: "+strings.Repeat("a", c.size)+"\r\nTransfer", 1)
			r := newRig(t, withScript(answering(head+chunk(text)+chunk(text)+lastChunk)))
			response := r.post("/v1/chat/completions", c.body)
			if got := readBody(t, response); response.StatusCode != c.status || c.status == 200 && got != text+text {
				t.Errorf("got %d %.200s", response.StatusCode, got)
			}
			r.awaitIdle()
		})
	}
}

// TestAnEndThatCameWithTheLastBytesIsNoticed: the poller wakes a reader once for
// both, and the reader has to find the end without being woken again.
func TestAnEndThatCameWithTheLastBytesIsNoticed(t *testing.T) {
	for _, end := range []string{"FIN", "RST"} {
		t.Run(end, func(t *testing.T) {
			replica, gateway := socketPair(t)
			h, err := newHangups()
			if err != nil {
				t.Fatal(err)
			}
			defer h.close()
			c := &upstreamConn{Conn: gateway, of: &upstream{hangups: h}, raw: rawConn(gateway)}
			h.add(gateway, &c.peer)
			_, _ = io.WriteString(replica, "first")
			var got []byte
			ended := make(chan error, 1)
			go func() {
				ended <- c.receive(func(p []byte) bool {
					if len(got) == 0 { // while it is busy with this, all the rest arrives
						_, _ = io.WriteString(replica, "last")
						if end == "RST" {
							_ = replica.(*net.TCPConn).SetLinger(0)
						}
						_ = replica.Close()
						for !peerLeft(gateway) {
							runtime.Gosched()
						}
					}
					got = append(got, p...)
					return true
				})
			}()
			select {
			case err := <-ended:
				if err == nil || end == "FIN" && (err != io.EOF || string(got) != "firstlast") {
					t.Errorf("got %q, %v", got, err)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("the end was not noticed")
			}
		})
	}
}

// TestWhatTheReplicaSentBeforeItsEndIsRelayedToASlowClientToo, however long the
// client takes for each part of it: all of it is there already.
func TestWhatTheReplicaSentBeforeItsEndIsRelayedToASlowClientToo(t *testing.T) {
	replica, gateway := socketPair(t)
	h, err := newHangups()
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	c := &upstreamConn{Conn: gateway, of: &upstream{hangups: h}, raw: rawConn(gateway)}
	h.add(gateway, &c.peer)
	_, _ = io.WriteString(replica, strings.Repeat("x", 4*streamBuffer))
	_ = replica.Close()
	for !c.peer.gone.Load() {
		runtime.Gosched()
	}
	got := 0
	err = c.receive(func(p []byte) bool {
		got += len(p)
		_ = c.SetReadDeadline(longAgo) // it took that long
		return true
	})
	if err != io.EOF || got != 4*streamBuffer {
		t.Errorf("got %d of %d bytes, %v", got, 4*streamBuffer, err)
	}
}

// TestAWriteToAClientThatHasLeftIsNotWaitedFor, also when its time-out is about
// to be moved while the client leaves.
func TestAWriteToAClientThatHasLeftIsNotWaitedFor(t *testing.T) {
	client, gateway := net.Pipe()
	defer func() { _, _ = client.Close(), gateway.Close() }()
	ctx := &fasthttp.RequestCtx{}
	ctx.Init2(gateway, quiet{}, false)
	x := &exchange{ctx: ctx, end: func(error) {}}
	x.leave(errClientLeft)
	x.armWrite(time.Now().Add(20 * time.Second))
	if _, err := gateway.Write([]byte("x")); !isTimeout(err) || x.cancelled() != errClientLeft {
		t.Errorf("the write ended with %v", err)
	}
}

// TestATimeInWhichTheClientDoesNotReadIsNotTheReplicas: what the replica sends
// must come in time once it is waited for, not before.
func TestATimeInWhichTheClientDoesNotReadIsNotTheReplicas(t *testing.T) {
	const idle = 200 * time.Millisecond
	text := `{"x":"` + strings.Repeat("x", 24<<20) + `"}`
	r := newRig(t, withConfig(func(cfg *config.Config) { cfg.Timeouts.Idle = idle }), withScript(answering(jsonWire(text))))
	response := r.post("/v1/chat/completions", chatBody)
	<-time.After(3 * idle) // the client does something else
	if got, err := io.ReadAll(response.Body); err != nil || string(got) != text {
		t.Errorf("got %d of %d bytes, %v", len(got), len(text), err)
	}
	_ = response.Body.Close()
	r.awaitIdle()
}

// peerLeft reports whether the peer of c has closed its side.
func peerLeft(c net.Conn) bool {
	raw := rawConn(c)
	left := false
	return raw != nil && raw.Control(func(fd uintptr) { left = polled(fd, unix.POLLRDHUP) }) == nil && left
}
