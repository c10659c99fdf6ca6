package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mete/bench/sim"
	"mete/config"
	"mete/limits"
)

const planLimit = 1 << 20

// limited is a plan whose counts show what was charged.
func limited(cfg *config.Config) {
	cfg.Plans["all"] = config.Plan{DefaultTokens: 1000, Limits: []config.Limit{
		{Requests: planLimit, Per: time.Hour}, {Tokens: planLimit, Per: time.Hour}, {Concurrent: 50},
	}}
}

// charged reads what the caller has used of each limit, once everything that
// was settled has arrived.
func (r *rig) charged() (requests, tokens, running int64) {
	r.Helper()
	r.awaitIdle()
	deadline := time.Now().Add(10 * time.Second)
	for {
		status, err := r.limiter.Status(context.Background(), []byte(testKey))
		if err != nil {
			r.Fatal(err)
		}
		used := map[limits.Kind]int64{}
		for _, l := range status.Limits {
			used[l.Kind] = l.Limit - l.Remaining
		}
		if used[limits.Concurrent] == 0 || time.Now().After(deadline) {
			return used[limits.Requests], used[limits.Tokens], used[limits.Concurrent]
		}
		time.Sleep(5 * time.Millisecond) // settlement is off the request path and tells nobody
	}
}

// TestEveryEndingSettlesOnce goes through the ways in which an exchange can
// end. What was charged must be what was used, and no slot may stay taken.
func TestEveryEndingSettlesOnce(t *testing.T) {
	prompt := int64(2) // "hello" is five bytes, four to a token
	for name, c := range map[string]struct {
		fault    string
		stream   bool
		requests int64
		tokens   func(relayed string) int64
	}{
		"an answer with usage":                   {"", false, 1, func(s string) int64 { return number(s, `"total_tokens":`) }},
		"a stream that counts":                   {"", true, 1, func(s string) int64 { return number(s, `"total_tokens":`) }},
		"a replica's error costs no tokens":      {"status; code=500", false, 1, nil},
		"a refused request costs no tokens":      {"status; code=400", false, 1, nil},
		"a full queue costs no tokens":           {"queue_full", false, 1, nil},
		"an error as the first event":            {"error; after=0", true, 1, nil},
		"a stream that was cut costs what came":  {"cut; at=1500", true, 1, func(s string) int64 { return prompt + estimated(s) }},
		"a cut before the first byte":            {"cut; at=0", true, 1, nil},
		"a whole answer that was cut":            {"cut; at=40", false, 1, nil},
		"an error in the middle costs what came": {"error; after=4", true, 1, func(s string) int64 { return prompt + estimated(s) }},
		"an abort that nobody asked for":         {"abort; after=3", true, 1, func(s string) int64 { return number(s, `"total_tokens":`) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withConfig(limited))
			body := fmt.Sprintf(`{"sim_fault":%q,"model":"mete","stream":%v,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hello"}]}`, c.fault, c.stream)
			if !c.stream {
				body = faulty(c.fault, false)
			}
			relayed, _ := io.ReadAll(r.post("/v1/chat/completions", body).Body)
			requests, tokens, running := r.charged()
			want := int64(0)
			if c.tokens != nil {
				want = c.tokens(string(relayed))
			}
			if requests != c.requests || tokens != want || running != 0 {
				t.Errorf("charged %d requests and %d tokens, want %d and %d; %d still running\n%s\n%s", requests, tokens, c.requests, want, running, relayed, r.log)
			}
			r.wantNoLeases()
		})
	}
}

// number finds the integer behind the last name in s.
func number(s, name string) (n int64) {
	if i := strings.LastIndex(s, name); i >= 0 {
		_, _ = fmt.Sscan(s[i+len(name):], &n)
	}
	return n
}

// estimated is what a stream without usage is charged: the larger of its deltas
// and a quarter of its text's bytes.
func estimated(s string) int64 {
	deltas, text := 0, 0
	s = s[:strings.LastIndexByte(s, '\n')+1] // of a line that was cut nothing is read
	for _, part := range strings.Split(s, `"content":"`)[1:] {
		if content, _, whole := strings.Cut(part, `"`); whole && content != "" {
			deltas++
			text += len(content)
		}
	}
	return int64(max(deltas, (text+3)/4))
}

func (r *rig) wantNoLeases() {
	r.Helper()
	for _, replica := range r.gateway.table.Load().models["mete"].pool.Replicas() {
		if n := replica.InFlight(); n != 0 {
			r.Errorf("%d leases are held", n)
		}
	}
}

func TestRequestThatReachesNoReplicaIsRefundedWhole(t *testing.T) {
	r := newRig(t, withConfig(limited))
	_ = r.replicas[0].Close()
	wantError(t, r.post("/v1/chat/completions", chatBody), 502, "replica_failed", "")
	if requests, tokens, running := r.charged(); requests+tokens+running != 0 {
		t.Errorf("charged %d requests, %d tokens, %d running", requests, tokens, running)
	}
	r.wantNoLeases()
}

// TestUsageOfEveryEndpointIsCharged: two of them spell the counts in another
// way, and nest them; one tells of them in two events.
func TestUsageOfEveryEndpointIsCharged(t *testing.T) {
	const answered = `{"id":"r","output":[{"content":[{"text":"hello"}]}],"usage":{"input_tokens":5000,"output_tokens":7000,"total_tokens":12000}}`
	for name, c := range map[string]struct{ path, wire string }{
		"chat":       {"chat/completions", jsonWire(`{"choices":[],"usage":{"prompt_tokens":5000,"total_tokens":12000,"completion_tokens":7000}}`)},
		"responses":  {"responses", jsonWire(answered)},
		"messages":   {"messages", jsonWire(answered)},
		"embeddings": {"embeddings", jsonWire(`{"data":[],"usage":{"prompt_tokens":12000,"total_tokens":12000}}`)},
		"responses, streamed": {"responses", streamHead + chunk(events("\n", `data: {"type":"response.output_text.delta","delta":"hello"}`,
			`data: {"type":"response.completed","response":`+answered+`}`)) + lastChunk},
		"messages, streamed": {"messages", streamHead + chunk(events("\n", `data: {"type":"message_start","message":{"usage":{"input_tokens":5000,"output_tokens":0}}}`,
			`data: {"type":"message_delta","delta":{},"usage":{"output_tokens":7000}}`)) + lastChunk},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withScript(answering(c.wire)), withConfig(limited), withConfig(func(cfg *config.Config) {
				pool := config.DefaultPool()
				pool.Endpoints = append(pool.Endpoints, "responses", "messages")
				cfg.Pools["general"] = pool
			}))
			body := fmt.Sprintf(`{"model":"mete","stream":%v,"input":"hello","messages":[{"role":"user","content":"hello"}]}`, strings.HasPrefix(c.wire, streamHead))
			readBody(t, r.post("/v1/"+c.path, body))
			if requests, tokens, _ := r.charged(); requests != 1 || tokens != 12000 {
				t.Errorf("charged %d requests and %d tokens, the replica counted 12000\n%s", requests, tokens, r.log)
			}
		})
	}
}

// TestConnectionThatDiesUnderTheRequestIsRefunded: the replica is killed when a
// second request has come over a connection that was kept, and cannot be
// connected to again.
func TestConnectionThatDiesUnderTheRequestIsRefunded(t *testing.T) {
	var n atomic.Int64
	second := make(chan struct{})
	r := newRig(t, withConfig(limited), withScript(func(q *sim.Request, c net.Conn) error {
		if n.Add(1) == 2 {
			close(second)
			<-q.Gone()
			return io.EOF
		}
		return answering(jsonWire("{}"))(q, c)
	}))
	readBody(t, r.post("/v1/chat/completions", chatBody))
	before, _, _ := r.charged()
	killed := make(chan struct{})
	go func() {
		<-second
		r.replicas[0].Kill()
		close(killed)
	}()
	wantError(t, r.post("/v1/chat/completions", chatBody), 502, "replica_failed", "")
	await(t, killed)
	if after, _, running := r.charged(); before != 1 || after != before || running != 0 {
		t.Errorf("%d requests were charged, then %d; %d still running", before, after, running)
	}
}

func TestPlanThatForbidsAFieldRefundsTheRequest(t *testing.T) {
	r := newRig(t, withConfig(limited))
	wantError(t, r.post("/v1/chat/completions", strings.Replace(chatBody, "{", `{"priority":1,`, 1)), 400, "field_not_allowed", "priority")
	if requests, tokens, running := r.charged(); requests+tokens+running != 0 {
		t.Errorf("charged %d requests, %d tokens, %d running", requests, tokens, running)
	}
}

// TestPanicSettlesToo breaks the pool under a request that holds a grant.
func TestPanicSettlesToo(t *testing.T) {
	r := newRig(t, withConfig(limited))
	whole := r.gateway.table.Load()
	broken := &table{config: whole.config, bounds: whole.bounds, metrics: whole.metrics}
	unpooled := *whole.models["mete"]
	unpooled.pool = &pool{endpoints: unpooled.pool.endpoints, metrics: unpooled.pool.metrics}
	broken.models = map[string]*model{"mete": &unpooled}
	r.gateway.table.Store(broken)
	wantError(t, r.post("/v1/chat/completions", chatBody), 500, "internal_error", "")
	r.gateway.table.Store(whole)
	if requests, tokens, running := r.charged(); requests+tokens+running != 0 {
		t.Errorf("charged %d requests, %d tokens, %d running", requests, tokens, running)
	}
}

func TestRateLimitIsTold(t *testing.T) {
	r := newRig(t, withConfig(func(cfg *config.Config) {
		cfg.Plans["all"] = config.Plan{DefaultTokens: 10, Limits: []config.Limit{
			{Requests: 2, Per: time.Hour}, {Tokens: 1000, Per: time.Hour},
		}}
	}))
	first := r.post("/v1/chat/completions", chatBody)
	for name, want := range map[string]string{
		"x-ratelimit-limit-requests": "2", "x-ratelimit-remaining-requests": "1",
		"x-ratelimit-limit-tokens": "1000", "x-ratelimit-remaining-tokens": "988",
	} {
		if got := first.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	readBody(t, r.post("/v1/chat/completions", chatBody))
	refused := r.post("/v1/chat/completions", chatBody)
	if refused.Header.Get("retry-after") == "" || refused.Header.Get("retry-after-ms") == "" || refused.Header.Get("x-ratelimit-remaining-requests") != "0" {
		t.Errorf("%v", refused.Header)
	}
	wantError(t, refused, 429, "rate_limit_exceeded", "")
	r.awaitIdle()
	if n := r.replicas[0].Stats().Requests["/v1/chat/completions"]; n != 2 {
		t.Errorf("%d requests reached the replica", n)
	}
}

func TestRequestThatNoWindowCanHoldIsTheCallersError(t *testing.T) {
	r := newRig(t, withConfig(func(cfg *config.Config) {
		cfg.Plans["all"] = config.Plan{DefaultTokens: 10, Limits: []config.Limit{{Tokens: 100, Per: time.Hour}}}
	}))
	response := r.post("/v1/chat/completions", strings.Replace(chatBody, "{", `{"max_tokens":200,`, 1))
	if response.Header.Get("retry-after") != "" {
		t.Error("a retry is advised")
	}
	wantError(t, response, 400, "request_too_large_for_limit", "max_tokens")
}

func TestModelThatThePlanDenies(t *testing.T) {
	r := newRig(t, withConfig(func(cfg *config.Config) {
		cfg.Plans["all"] = config.Plan{DefaultTokens: 10, DenyModels: []string{"mete"}}
	}))
	wantError(t, r.post("/v1/chat/completions", chatBody), 403, "model_not_allowed", "model")
}
