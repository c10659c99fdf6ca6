package sim

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestTheServerSpeaksHTTP(t *testing.T) {
	r := start(t, Config{OutputTokens: 2, MaxBody: 1 << 16})
	chunked := "POST " + chatPath + " HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n" +
		fmt.Sprintf("5;x=y\r\n%s\r\n%x\r\n%s\r\n0\r\ntrailer: x\r\n\r\n", hello[:5], len(hello)-5, hello[5:])
	for _, row := range []struct {
		name, request string
		wants         []string
	}{
		{"two requests, one after the other on a connection", rawPost(chatPath, hello) + rawPost(chatPath, hello, "connection: close"), []string{"HTTP/1.1 200 OK", "HTTP/1.1 200 OK", "connection: close"}},
		{"a chunked body", chunked + "GET /health HTTP/1.1\r\nconnection: close\r\n\r\n", []string{"200 OK", "chat.completion", "HTTP/1.1 200 OK\r\n"}},
		{"blank lines before a request", "\r\n\r\n" + rawPost(chatPath, hello, "connection: close"), []string{"200 OK"}},
		{"HTTP/1.0 gets no chunks and a closed connection", strings.Replace(rawPost(chatPath, streamed), "HTTP/1.1", "HTTP/1.0", 1), []string{"200 OK", "\r\n\r\ndata: {", "data: [DONE]\n\n"}},
		{"HEAD gets no body", "HEAD /v1/models HTTP/1.1\r\nconnection: close\r\n\r\n", []string{"200 OK", "content-length: ", "\r\n\r\n"}},
		{"a request line that is none", "nonsense\r\n\r\n", []string{"400 Bad Request", "Invalid HTTP request"}},
		{"an unknown version", "GET / HTTP/2.0\r\n\r\n", []string{"400 Bad Request"}},
		{"a field without a colon", "GET /health HTTP/1.1\r\nnonsense\r\n\r\n", []string{"400 Bad Request"}},
		{"a blank before the colon", "GET /health HTTP/1.1\r\nhost : x\r\n\r\n", []string{"400 Bad Request"}},
		{"two lengths for a body", strings.Replace(rawPost(chatPath, hello), "host: x", "transfer-encoding: chunked", 1), []string{"400 Bad Request"}},
		{"a chunk size that is none", strings.Replace(chunked, "5;x=y", "five", 1), []string{"400 Bad Request"}},
		{"a chunk longer than its size", strings.Replace(chunked, "5;x=y", "3", 1), []string{"400 Bad Request"}},
		{"a body above the limit", "POST / HTTP/1.1\r\ncontent-length: 65537\r\n\r\n", []string{"413 Request Entity Too Large"}},
		{"a header above the limit", "GET / HTTP/1.1\r\nx: " + strings.Repeat("x", maxHead), []string{"400 Bad Request"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := dial(t, r)
			c.send(t, row.request)
			got, err := c.rest()
			if err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Fatal(err)
			}
			rest := got
			for _, want := range row.wants {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Fatalf("want %q in %q", want, rest)
				}
				rest = after
			}
			if strings.HasPrefix(row.name, "HEAD") && rest != "" {
				t.Errorf("body after HEAD: %q", rest)
			}
		})
	}
}

func TestExpectContinue(t *testing.T) {
	r := start(t, Config{})
	c := dial(t, r)
	head, body, _ := strings.Cut(rawPost(chatPath, hello, "expect: 100-continue"), "\r\n\r\n")
	c.send(t, head+"\r\n\r\n")
	if got := c.until(t, "\r\n\r\n"); got != "HTTP/1.1 100 Continue\r\n\r\n" {
		t.Fatalf("got %q", got)
	}
	c.send(t, body)
	mustContain(t, c.until(t, "\r\n\r\n"), "200 OK")
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	r := start(t, Config{KeepAlive: 50 * ms})
	c := dial(t, r)
	c.send(t, rawPost(chatPath, hello))
	began := time.Now()
	if _, err := c.rest(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 45*ms || took > 5*time.Second {
		t.Errorf("closed after %v", took)
	}
	busy := dial(t, r) // a request that takes longer than the idle time is not cut
	busy.send(t, rawPost(chatPath, hello, "x-sim-fault: hang; for=120ms"))
	mustContain(t, busy.until(t, "\r\n\r\n"), "200 OK")
}

func TestTheKeyGuardsOnlyV1(t *testing.T) {
	r := start(t, Config{APIKey: "secret"})
	for _, row := range []struct {
		path, key string
		status    int
	}{{chatPath, "", 401}, {chatPath, "Bearer wrong", 401}, {chatPath, "Bearer secret", 200}, {"/tokenize", "", 200}} {
		status, body := post(t, r, row.path, strings.Replace(hello, `{`, `{"prompt":"x",`, 1), "Authorization", row.key)
		if status != row.status || status == 401 && body != `{"error":"Unauthorized"}` {
			t.Errorf("%+v: %d %s", row, status, body)
		}
	}
}

func TestModels(t *testing.T) {
	r := start(t, Config{Models: []string{"a", "b"}, Root: "/models/a", LoRA: []string{"l"}, MaxModelLen: 4096})
	_, body, err := do(t, r, "GET", "/v1/models", "")
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Data []struct {
			ID, Root, Parent string
			MaxModelLen      int `json:"max_model_len"`
		}
	}
	if err := json.Unmarshal(body, &list); err != nil || len(list.Data) != 3 {
		t.Fatalf("%v: %s", err, body)
	}
	if b := list.Data[1]; b.ID != "b" || b.Root != "/models/a" || b.MaxModelLen != 4096 {
		t.Errorf("%+v", b)
	}
	if l := list.Data[2]; l.ID != "l" || l.Parent != "a" {
		t.Errorf("%+v", l)
	}
}

func TestLoadReports(t *testing.T) {
	p := FixedProfile(0, 20*ms, 0)
	p.MaxSeqs = 1
	r := start(t, Config{Profile: &p, Engines: 2, LoRA: []string{"l"}})
	for range 4 { // the balancer puts one running and one waiting on each engine
		c := dial(t, r)
		c.send(t, rawPost(chatPath, strings.Replace(streamed, `{`, `{"max_tokens":5000,"ignore_eos":true,`, 1)))
		c.until(t, "\r\n\r\n")
	}
	await(t, r, func(s Stats) bool { return s.Running == 2 && s.Waiting == 2 })
	_, page, _ := do(t, r, "GET", "/metrics", "")
	mustContain(t, string(page),
		`vllm:num_requests_running{engine="0",model_name="sim"} 1.0`, `vllm:num_requests_running{engine="1",model_name="sim"} 1.0`,
		`vllm:num_requests_waiting{engine="1",model_name="sim"} 1.0`, `vllm:cache_config_info{block_size="16"`, `num_gpu_blocks="29205"} 1.0`,
		`vllm:kv_cache_usage_perc{engine="0",model_name="sim"} `, `vllm:lora_requests_info{max_lora="1"`)
	_, load, _ := do(t, r, "GET", "/load", "")
	if string(load) != `{"server_load":4}` {
		t.Errorf("load: %s", load)
	}
	for format, want := range map[string]string{"TEXT": "TEXT named_metrics.kv_cache_usage_perc=", "json": `JSON {"named_metrics": {"kv_cache_usage_perc": `} {
		resp, _, _ := do(t, r, "POST", "/tokenize", `{"prompt":"x"}`, "endpoint-load-metrics-format", format)
		if got := resp.Header.Get("endpoint-load-metrics"); !strings.HasPrefix(got, want) || !strings.Contains(got, "num_requests_waiting") || !strings.Contains(got, "2.0") {
			t.Errorf("%s: %q", format, got)
		}
	}
	if resp, _, _ := do(t, r, "GET", "/health", ""); resp.Header.Get("endpoint-load-metrics") != "" {
		t.Error("a load report that nobody asked for")
	}
	old := start(t, Config{OldMetrics: true})
	_, page, _ = do(t, old, "GET", "/metrics", "")
	mustContain(t, string(page), "vllm:gpu_cache_usage_perc{")
	if strings.Contains(string(page), "vllm:kv_cache_usage_perc") {
		t.Error("both names of the cache usage")
	}
}

func TestAFullQueueRefuses(t *testing.T) {
	p := FixedProfile(0, 20*ms, 0)
	for _, asEvent := range []bool{false, true} {
		r := start(t, Config{Profile: &p, MaxQueued: 2, RefuseEvent: asEvent})
		c := dial(t, r)
		c.send(t, rawPost(chatPath, strings.Replace(streamed, `{`, `{"n":2,"max_tokens":5000,"ignore_eos":true,`, 1)))
		c.until(t, "data: ")
		status, body := post(t, r, chatPath, streamed)
		if asEvent {
			if got := chunks(t, body); status != 200 || len(got) != 1 || !strings.Contains(got[0], `"code":503`) {
				t.Errorf("as event: %d %s", status, body)
			}
		} else if status != 503 {
			t.Errorf("as status: %d %s", status, body)
		}
		if status, _ := post(t, r, chatPath, hello); status != 503 {
			t.Errorf("not streamed: %d", status)
		}
		_ = c.Close()
		await(t, r, func(s Stats) bool { return s.Aborted == 1 && s.Refused == 2 })
		if status, _ := post(t, r, chatPath, `{"max_tokens":1,"messages":[{"role":"user","content":"x"}]}`); status != 200 {
			t.Errorf("after the place is free again: %d", status)
		}
	}
}

func TestPoolingEndpoints(t *testing.T) {
	p := plain()
	p.StepBase, p.Blocks = ms, 10000
	r := start(t, Config{Profile: &p})
	_, plainBody := post(t, r, "/v1/embeddings", `{"input":["one","two"],"dimensions":8}`)
	_, encoded := post(t, r, "/v1/embeddings", `{"input":"one","dimensions":8,"encoding_format":"base64"}`)
	var a struct {
		Data []struct{ Embedding []float32 }
	}
	var b struct{ Data []struct{ Embedding string } }
	if err := errors.Join(json.Unmarshal([]byte(plainBody), &a), json.Unmarshal([]byte(encoded), &b)); err != nil {
		t.Fatal(err)
	}
	if len(a.Data) != 2 || len(a.Data[0].Embedding) != 8 || reflect.DeepEqual(a.Data[0], a.Data[1]) {
		t.Errorf("%+v", a)
	}
	if raw, err := base64.StdEncoding.DecodeString(b.Data[0].Embedding); err != nil || len(raw) != 32 {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
	if want := (&Config{}).Vector("one", 8); !reflect.DeepEqual(a.Data[0].Embedding, want) {
		t.Errorf("got %v, want %v", a.Data[0].Embedding, want)
	}
	for path, body := range map[string]string{
		"/score": `{"text_1":"a","text_2":["b","c"]}`, "/v1/rerank": `{"query":"a","documents":["b","c","d"],"top_n":2}`,
		"/classify": `{"input":"a"}`, "/tokenize": `{"prompt":"two words"}`,
	} {
		status, got := post(t, r, path, body)
		if status != 200 || !json.Valid([]byte(got)) {
			t.Errorf("%s: %d %s", path, status, got)
		}
	}
	_, ranked := post(t, r, "/v1/rerank", `{"query":"a","documents":["b","c","d"],"top_n":2}`)
	if strings.Count(ranked, "relevance_score") != 2 {
		t.Errorf("top_n: %s", ranked)
	}
}

func TestResponsesAreKeptByThisReplica(t *testing.T) {
	r := start(t, Config{})
	_, first := post(t, r, "/v1/responses", `{"input":"x"}`, "X-Request-Id", "r1")
	_, again, _ := do(t, r, "GET", "/v1/responses/resp_r1", "")
	if string(again) != first {
		t.Errorf("got %s, want %s", again, first)
	}
	if status, _ := post(t, r, "/v1/responses", `{"input":"y","previous_response_id":"resp_r1"}`); status != 200 {
		t.Errorf("previous response: %d", status)
	}
}

func TestAScriptAnswersWithExactBytes(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n3\r\nyz\n\r\n0\r\n\r\n"
	var seen string
	r := start(t, Config{Script: func(req *Request, c net.Conn) error {
		if req.Path != chatPath {
			return ErrPass
		}
		seen = req.Header("X-Test") + string(req.Body)
		_, err := io.WriteString(c, answer)
		return err
	}})
	c := dial(t, r)
	for range 2 { // the connection is kept
		c.send(t, rawPost(chatPath, hello, "x-test: yes "))
		if got := c.until(t, "0\r\n\r\n"); got != answer || seen != "yes"+hello {
			t.Errorf("got %q, seen %q", got, seen)
		}
	}
	if status, _ := post(t, r, "/tokenize", `{"prompt":"x"}`); status != 200 {
		t.Errorf("passed on: %d", status)
	}
	head, body := r.LastRequest()
	mustContain(t, string(head)+string(body), "POST /tokenize HTTP/1.1\r\n", "\r\n\r\n"+`{"prompt":"x"}`)
	r.SetScript(func(*Request, net.Conn) error { return io.ErrClosedPipe })
	c.send(t, rawPost(chatPath, hello))
	if got, err := c.rest(); got != "" || err != nil {
		t.Errorf("an error must close: %q, %v", got, err)
	}
	r.SetScript(nil)
	if status, _ := post(t, r, chatPath, hello); status != 200 {
		t.Errorf("without a script: %d", status)
	}
}

func TestObserveSeesRequestsAndTheirEnd(t *testing.T) {
	gone := make(chan struct{}, 1)
	var wait sync.WaitGroup
	r := start(t, Config{Observe: func(req *Request) {
		left := req.Gone()
		wait.Go(func() { <-left; gone <- struct{}{} })
	}})
	c := dial(t, r)
	c.send(t, rawPost(chatPath, hello, "x-sim-fault: hang"))
	await(t, r, func(s Stats) bool { return s.Active == 1 })
	_ = c.Close()
	<-gone
	wait.Wait()
}

func TestConfigThatCannotWorkIsRefused(t *testing.T) {
	p := plain()
	if _, err := Start(Config{Profile: &p, MaxModelLen: 401}); err == nil {
		t.Error("a context window above the kv cache was accepted")
	}
	r := start(t, Config{})
	if _, err := Start(Config{Addr: r.Addr()}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v", err)
	}
	if _, version, err := do(t, r, "GET", "/version", ""); err != nil || !json.Valid(version) {
		t.Errorf("%s, %v", version, err)
	}
}
