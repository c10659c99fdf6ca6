package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mete/bench/sim"
	"mete/config"
)

// faulty is a chat body that asks the replica for a fault.
func faulty(fault string, stream bool) string {
	return fmt.Sprintf(`{"sim_fault":%q,"model":"mete","stream":%v,"messages":[{"role":"user","content":"hello"}]}`, fault, stream)
}

func TestReplicasOwnErrors(t *testing.T) {
	r := newRig(t)
	for name, c := range map[string]struct {
		fault  string
		stream bool
		status int
		code   string // "" for the replica's own body
	}{
		"a nested error is relayed as it is": {"status; code=400; shape=nested; message=too long", false, 400, ""},
		"a flat one is wrapped":              {"status; code=400; shape=flat; message=too long", false, 400, "replica_refused"},
		"one with a string code is relayed":  {"status; code=404; shape=string", false, 404, ""},
		"a bare string is wrapped":           {"status; code=400; shape=bare; message=no", false, 400, "replica_refused"},
		"an empty one is wrapped":            {"status; code=503; shape=empty", false, 503, "replica_failed"},
		"plain text is wrapped":              {"status; code=500; shape=plain", false, 500, "replica_failed"},
		"a nested 500 is relayed":            {"status; code=500; shape=nested", false, 500, ""},
		"the replica's 401 is not ours":      {"status; code=401; shape=bare", false, 502, "replica_failed"},
		"the replica's 403 is not ours":      {"status; code=403; shape=nested", false, 502, "replica_failed"},
		"a redirect is a failure":            {"status; code=307; shape=empty", false, 502, "replica_failed"},
		"a full queue is ours to explain":    {"queue_full", false, 503, "replicas_busy"},
		"a full queue told in a stream":      {"queue_full; as=event", true, 503, "replicas_busy"},
		"an error as the first event":        {"error; after=0; code=500", true, 500, ""},
		"an error as the first event, 400":   {"error; after=0; code=400", true, 400, ""},
		"a connection cut before the body":   {"cut; at=0", true, 502, "replica_failed"},
		"a reset before the header":          {"cut; at=0; of=response; how=rst", false, 502, "replica_failed"},
	} {
		t.Run(name, func(t *testing.T) {
			response := r.post("/v1/chat/completions", faulty(c.fault, c.stream))
			if c.code != "" {
				wantError(t, response, c.status, c.code, "")
				return
			}
			if text := readBody(t, response); response.StatusCode != c.status || !strings.Contains(text, `"error":`) || strings.Contains(text, "replica_failed") {
				t.Errorf("got %d %s", response.StatusCode, text)
			}
		})
	}
	r.awaitIdle()
}

func TestErrorInTheMiddleOfAStreamIsRelayed(t *testing.T) {
	r := newRig(t)
	response := r.post("/v1/chat/completions", faulty("error; after=2; code=500", true))
	text := readBody(t, response)
	if response.StatusCode != 200 || !strings.Contains(text, `{"error"`) || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("got %d %q", response.StatusCode, text)
	}
	r.awaitIdle()
	if line := r.log.String(); !strings.Contains(line, `"outcome":"replica_fault"`) || !strings.Contains(line, `"fault":"replica"`) {
		t.Error(line)
	}
}

func TestStreamThatDiesTellsTheClientBetweenEvents(t *testing.T) {
	first := events("\n", textChunk)
	for name, c := range map[string]struct {
		sent  string
		event bool
	}{
		"between two events":     {first, true},
		"in the middle of one":   {first + "data: {", false},
		"behind a line, no more": {first + textChunk + "\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withScript(func(_ *sim.Request, conn net.Conn) error {
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(c.sent), c.sent)
				return io.EOF
			}))
			got, err := io.ReadAll(r.post("/v1/chat/completions", streamBody).Body)
			want := c.sent
			if c.event {
				want += string(replicaCutEvent)
			}
			if err == nil || string(got) != want {
				t.Errorf("got %q, %v\nwant %q and an error", got, err, want)
			}
			r.awaitIdle()
			if line := r.log.String(); !strings.Contains(line, `"fault":"replica"`) {
				t.Error(line)
			}
		})
	}
}

func TestAnotherReplicaAnswersWhileNothingHasBeenSent(t *testing.T) {
	for _, fault := range []string{
		"status; code=500", "status; code=502", "status; code=503; shape=empty", "queue_full", "queue_full; as=event",
		"error; after=0", "cut; at=0", "cut; at=0; of=response", "cut; at=30; how=rst",
	} {
		for _, stream := range []bool{true, false} {
			if !stream && strings.Contains(fault, "error") || !stream && strings.Contains(fault, "event") {
				continue
			}
			t.Run(fmt.Sprintf("%s, stream %v", fault, stream), func(t *testing.T) {
				r := newRig(t, withReplicas(2, sim.Config{}))
				parsed, err := sim.ParseFault(fault)
				if err != nil {
					t.Fatal(err)
				}
				if err := r.replicas[0].SetFault(parsed); err != nil {
					t.Fatal(err)
				}
				for failedOver := false; !failedOver; { // the faulty one is chosen first about every other time
					response := r.post("/v1/chat/completions", strings.Replace(chatBody, "{", fmt.Sprintf(`{"stream":%v,`, stream), 1))
					if text := readBody(t, response); response.StatusCode != 200 || strings.Contains(text, `"error"`) {
						t.Fatalf("got %d %s", response.StatusCode, text)
					}
					if got := response.Header.Get("x-mete-replica"); got != r.replicas[1].Addr() {
						t.Errorf("%s has answered", got)
					}
					failedOver = response.Header.Get("x-mete-attempts") == "2"
				}
				r.awaitIdle()
			})
		}
	}
}

func TestCallersErrorsAreNotRepeated(t *testing.T) {
	r := newRig(t, withReplicas(2, sim.Config{}))
	readBody(t, r.post("/v1/chat/completions", faulty("status; code=400", false)))
	if n := r.replicas[0].Stats().Requests["/v1/chat/completions"] + r.replicas[1].Stats().Requests["/v1/chat/completions"]; n != 1 {
		t.Errorf("%d requests reached the replicas", n)
	}
}

func TestTwoFailuresAreTheLast(t *testing.T) {
	r := newRig(t, withReplicas(3, sim.Config{}))
	response := r.post("/v1/chat/completions", faulty("status; code=500", false))
	if response.StatusCode != 500 || response.Header.Get("x-should-retry") != "false" {
		t.Errorf("got %d, %v", response.StatusCode, response.Header)
	}
}

func TestDeadReplicaIsAnErrorOfItsOwn(t *testing.T) {
	r := newRig(t)
	_ = r.replicas[0].Close()
	wantError(t, r.post("/v1/chat/completions", chatBody), 502, "replica_failed", "")
}

func TestSilentReplicaTimesOut(t *testing.T) {
	r := newRig(t, withConfig(func(cfg *config.Config) {
		cfg.Timeouts.FirstByte = 50 * time.Millisecond
		cfg.Timeouts.Total = 50 * time.Millisecond
		cfg.Timeouts.Idle = 80 * time.Millisecond
	}))
	for _, fault := range []string{"hang; where=headers", "hang; where=body"} {
		for _, stream := range []bool{true, false} {
			response := r.post("/v1/chat/completions", faulty(fault, stream))
			if response.Header.Get("x-should-retry") != "false" {
				t.Errorf("%s: %v", fault, response.Header)
			}
			wantError(t, response, 504, "replica_timeout", "")
		}
	}
	got, err := io.ReadAll(r.post("/v1/chat/completions", faulty("hang; where=event; after=2", true)).Body)
	if err == nil || !strings.HasSuffix(string(got), string(stalledEvent)) {
		t.Errorf("a stream that stands still: %q, %v", got, err)
	}
	r.awaitIdle()
}

// TestConnectionThatTheReplicaHasClosedCostsNothing: uvicorn closes idle
// connections just when the next request goes out.
func TestConnectionThatTheReplicaHasClosedCostsNothing(t *testing.T) {
	var conns atomic.Int64
	r := newRig(t, withScript(func(_ *sim.Request, c net.Conn) error {
		conns.Add(1)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
		return io.EOF // closes, but has not said so
	}))
	for range 20 {
		if response := r.post("/v1/chat/completions", chatBody); response.StatusCode != 200 {
			t.Fatalf("got %d", response.StatusCode)
		}
	}
	if n := conns.Load(); n != 20 {
		t.Errorf("%d requests were seen, 20 were sent", n)
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	var ports atomic.Value
	ports.Store(map[string]bool{})
	r := newRig(t, withScript(func(_ *sim.Request, c net.Conn) error {
		seen := map[string]bool{c.RemoteAddr().String(): true}
		for p := range ports.Load().(map[string]bool) {
			seen[p] = true
		}
		ports.Store(seen)
		_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\n0\r\n\r\n")
		return err
	}))
	for range 10 {
		readBody(t, r.post("/v1/chat/completions", streamBody))
		r.awaitIdle()
	}
	if n := len(ports.Load().(map[string]bool)); n != 1 {
		t.Errorf("%d connections for 10 requests in a row", n)
	}
}

func TestConnectionsToAReplicaThatHasGoneAreClosed(t *testing.T) {
	r := newRig(t)
	readBody(t, r.post("/v1/chat/completions", chatBody))
	r.awaitIdle()
	r.gateway.Forget(r.gateway.table.Load().models["mete"].pool.Replicas()[0])
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.replicas[0].Await(ctx, func(s sim.Stats) bool { return s.Connections == 0 }); err != nil {
		t.Errorf("%d connections are open", r.replicas[0].Stats().Connections)
	}
}

func TestLoadThatTheReplicaTellsIsTakenIn(t *testing.T) {
	r := newRig(t)
	readBody(t, r.post("/v1/chat/completions", chatBody))
	if load := r.gateway.table.Load().models["mete"].pool.Snapshot().Replicas[0].Load; load.Source != "orca" || load.AgeMS == nil {
		t.Errorf("%+v", load)
	}
}

// TestPanicCostsOneRequest breaks the table under a request's feet.
func TestPanicCostsOneRequest(t *testing.T) {
	r := newRig(t)
	whole := r.gateway.table.Load()
	broken := &table{config: whole.config, bounds: whole.bounds, metrics: whole.metrics}
	broken.models = map[string]*model{"mete": {Model: whole.models["mete"].Model, metrics: whole.models["mete"].metrics}}
	r.gateway.table.Store(broken)
	wantError(t, r.post("/v1/chat/completions", chatBody), 500, "internal_error", "")
	r.gateway.table.Store(whole)
	if response := r.post("/v1/chat/completions", chatBody); response.StatusCode != 200 {
		t.Errorf("after the panic: %d", response.StatusCode)
	}
	r.awaitIdle()
	if log := r.log.String(); !strings.Contains(log, `"stack"`) || strings.Contains(log, testKey) {
		t.Error(log)
	}
}

func TestUnreadBodyEndsTheConnection(t *testing.T) {
	r := newRig(t, withConfig(func(cfg *config.Config) { cfg.Bounds.Body = 100 << 10 }))
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	// The body of the first request holds a second one: it must not be served.
	_, _ = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n%s",
		strings.Repeat("GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", 500))
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	answer, _ := io.ReadAll(c) // a reset may come behind the answer
	if n := strings.Count(string(answer), "HTTP/1.1 "); n > 1 || strings.Contains(string(answer), `"object":"list"`) {
		t.Errorf("%d answers: %q", n, answer)
	}
}

// TestRefusalOfABodyThatWasNotReadArrives: a socket that is closed with unread
// bytes in it is reset, and takes the answer along.
func TestRefusalOfABodyThatWasNotReadArrives(t *testing.T) {
	r := newRig(t, withConfig(func(cfg *config.Config) { cfg.Bounds.Body = 100 << 10 }))
	body := strings.Repeat("x", 4<<20)
	for range 50 {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", testKey, len(body), body)
		answer, err := io.ReadAll(c)
		_ = c.Close()
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 413 ") {
			t.Fatalf("%q, %v", answer, err)
		}
	}
}

func TestExpectContinueIsRefusedBeforeTheBody(t *testing.T) {
	r := newRig(t)
	for name, c := range map[string]struct {
		key  string
		want string
	}{
		"a good key":  {testKey, "HTTP/1.1 100 Continue"},
		"a bad key":   {"sk-mete-nope", "HTTP/1.1 401 Unauthorized"},
		"no such key": {"sk-mete-" + strings.Repeat("0", 40), "HTTP/1.1 401 Unauthorized"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_, _ = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", c.key, len(chatBody))
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			buf := make([]byte, 4096)
			n, err := conn.Read(buf)
			if err != nil || !strings.HasPrefix(string(buf[:n]), c.want) {
				t.Fatalf("got %q, %v", buf[:n], err)
			}
			if c.key != testKey {
				if !strings.Contains(string(buf[:n]), `"invalid_api_key"`) || !strings.Contains(string(buf[:n]), "Connection: close") {
					t.Errorf("got %q", buf[:n])
				}
				return
			}
			_, _ = io.WriteString(conn, chatBody)
			n, err = conn.Read(buf)
			if err != nil || !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 200 OK") {
				t.Errorf("got %q, %v", buf[:n], err)
			}
		})
	}
}

func TestNothingIsAddedToAnAnswerWhereThatIsSwitchedOff(t *testing.T) {
	r := newRig(t, withConfig(func(cfg *config.Config) { cfg.Answer = config.Answer{} }))
	header := r.post("/v1/chat/completions", chatBody).Header
	if header.Get("x-mete-replica") != "" || header.Get("server-timing") != "" {
		t.Errorf("%v", header)
	}
	var names []string
	for name := range header {
		names = append(names, name)
	}
	if len(names) != 4 { // Content-Type, Content-Length, Date, X-Request-Id
		t.Errorf("%v", names)
	}
	_ = http.StatusOK
}
