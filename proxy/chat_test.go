package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"mete/bench/sim"
	"mete/config"
)

func TestAnswerIsTheReplicasOwn(t *testing.T) {
	served := sim.Config{Created: 1, Models: []string{"mete"}}
	r := newRig(t, withReplicas(1, served))
	for name, body := range map[string]string{
		"whole":    chatBody,
		"streamed": streamBody,
		"streamed with usage": `{"model":"mete","stream":true,"stream_options":{"include_usage":true},` +
			`"messages":[{"role":"user","content":"hello"}],"unknown":1.50}`,
	} {
		t.Run(name, func(t *testing.T) {
			response := r.post("/v1/chat/completions", body)
			got := readBody(t, response)
			head, sent := r.replicas[0].LastRequest()
			if string(sent) != body {
				t.Errorf("the replica got %q", sent)
			}
			want, err := sim.Render(served, "/v1/chat/completions", requestID(string(head)), sent)
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != 200 || got != string(want) {
				t.Errorf("status %d\ngot  %q\nwant %q", response.StatusCode, got, want)
			}
			if response.Header.Get("x-mete-replica") != r.replicas[0].Addr() || response.Header.Get("server-timing") == "" {
				t.Errorf("header %v", response.Header)
			}
		})
	}
}

// requestID finds the id that the replica was given.
func requestID(head string) string {
	_, rest, _ := strings.Cut(strings.ToLower(head), "x-request-id: ")
	id, _, _ := strings.Cut(rest, "\r\n")
	return id
}

func TestOnlyListedHeadersReachTheReplica(t *testing.T) {
	r := newRig(t, withConfig(func(cfg *config.Config) {
		pool := config.DefaultPool()
		pool.APIKey = "replica-key"
		cfg.Pools["general"] = pool
	}))
	readBody(t, r.post("/v1/chat/completions", chatBody,
		"X-Data-Parallel-Rank", "3", "X-Vllm-Priority", "1", "Endpoint-Load-Metrics-Format", "TEXT", "Cookie", "a=b",
		"X-Forwarded-For", "1.2.3.4", "X-Request-Id", "mine", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	head, _ := r.replicas[0].LastRequest()
	lines := strings.Split(strings.TrimSpace(string(head)), "\r\n")
	want := []string{
		"POST /v1/chat/completions HTTP/1.1", "Host: " + r.replicas[0].Addr(), "Content-Type: application/json",
		fmt.Sprintf("Content-Length: %d", len(chatBody)), "X-Request-Id: " + requestID(string(head)),
		"Endpoint-Load-Metrics-Format: TEXT", "Authorization: Bearer replica-key", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("the replica got\n%s", head)
	}
	if id := requestID(string(head)); id == "mine" || len(id) != 32 {
		t.Errorf("id %q", id)
	}
}

func TestModelNameSplicesTheRequest(t *testing.T) {
	r := newRig(t)
	response := r.post("/v1/chat/completions", `{"model" : "mete-thinking","seed":1.0, "messages":[{"role":"user","content":"hi"}] }`)
	readBody(t, response)
	_, sent := r.replicas[0].LastRequest()
	const want = `{"model" : "sim","seed":1.0, "messages":[{"role":"user","content":"hi"}] ,"chat_template_kwargs":{"enable_thinking":true}}`
	if string(sent) != want {
		t.Errorf("the replica got\n%s\nwant\n%s", sent, want)
	}
}

func TestRefusals(t *testing.T) {
	r := newRig(t, withConfig(func(cfg *config.Config) { cfg.Bounds.Body = 100 << 10 }))
	big := strings.Repeat("x", 101<<10)
	const chat = "/v1/chat/completions"
	for name, c := range map[string]struct {
		path, body  string
		header      []string
		status      int
		code, param string
	}{
		"no key":                        {chat, chatBody, []string{"Authorization", ""}, 401, "missing_api_key", ""},
		"an empty bearer":               {chat, chatBody, []string{"Authorization", "Bearer "}, 401, "missing_api_key", ""},
		"another scheme":                {chat, chatBody, []string{"Authorization", "Basic abc"}, 401, "missing_api_key", ""},
		"a key of another service":      {chat, chatBody, []string{"Authorization", "Bearer sk-other"}, 401, "invalid_api_key", ""},
		"a key in upper case":           {chat, chatBody, []string{"Authorization", "Bearer " + strings.ToUpper(testKey)}, 401, "invalid_api_key", ""},
		"a well-formed unknown key":     {chat, chatBody, []string{"Authorization", "Bearer sk-mete-" + strings.Repeat("0", 40)}, 401, "invalid_api_key", ""},
		"a body that is no JSON type":   {chat, chatBody, []string{"Content-Type", "text/plain"}, 415, "unsupported_media_type", ""},
		"a compressed body":             {chat, chatBody, []string{"Content-Encoding", "gzip"}, 415, "unsupported_media_type", ""},
		"no body":                       {chat, "", nil, 400, "invalid_json", ""},
		"broken JSON":                   {chat, `{"model":"mete"`, nil, 400, "invalid_json", ""},
		"a model that is not there":     {chat, strings.Replace(chatBody, "mete", "gpt", 1), nil, 404, "model_not_found", "model"},
		"no model":                      {chat, `{"messages":[{"role":"user","content":"x"}]}`, nil, 400, "missing_required_parameter", "model"},
		"more tokens than the window":   {chat, strings.Replace(chatBody, "{", `{"max_tokens":32769,`, 1), nil, 400, "invalid_value", "max_tokens"},
		"temperature too high":          {chat, strings.Replace(chatBody, "{", `{"temperature":2.1,`, 1), nil, 400, "invalid_value", "temperature"},
		"a field that the plan has not": {chat, strings.Replace(chatBody, "{", `{"priority":1,`, 1), nil, 400, "field_not_allowed", "priority"},
		"a body that is too large":      {chat, big, nil, 413, "body_too_large", ""},
		"a path of no endpoint":         {"/v1/engines", chatBody, nil, 404, "unknown_url", ""},
		"an endpoint of vLLM's own":     {"/invocations", chatBody, nil, 404, "unknown_url", ""},
		"an endpoint not let through":   {"/v1/responses", `{"model":"mete","input":"x"}`, nil, 404, "endpoint_not_served", "model"},
		"a path with a double slash":    {"//v1/chat/completions", chatBody, nil, 404, "unknown_url", ""},
		"a POST to the catalogue":       {"/v1/models", chatBody, nil, 405, "method_not_allowed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, r.post(c.path, c.body, c.header...), c.status, c.code, c.param)
		})
	}
	r.awaitIdle()
	if n := r.replicas[0].Stats().Requests[chat]; n != 0 {
		t.Errorf("%d refused requests reached the replica", n)
	}
	if strings.Contains(r.log.String(), "sk-") {
		t.Error("a key is in the log")
	}
}

func TestCatalogue(t *testing.T) {
	r := newRig(t)
	get := func(path string) *http.Response {
		response, err := r.client.Get(r.url + path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
	var list struct {
		Object string
		Data   []map[string]any
	}
	if err := json.Unmarshal([]byte(readBody(t, get("/v1/models"))), &list); err != nil {
		t.Fatal(err)
	}
	first := fmt.Sprint(list.Data[0])
	if list.Object != "list" || len(list.Data) != 2 || first != "map[created:1.7684352e+09 id:mete max_model_len:32768 object:model owned_by:mete root:org/model]" {
		t.Errorf("%v", list)
	}
	if text := readBody(t, get("/v1/models/mete-thinking")); !strings.Contains(text, `"id":"mete-thinking"`) {
		t.Error(text)
	}
	wantError(t, get("/v1/models/nope"), 404, "model_not_found", "model")
	if response := get("/health"); response.StatusCode != 200 {
		t.Errorf("health: %d", response.StatusCode)
	}
	r.gateway.Retire()
	wantError(t, get("/health"), 503, "shutting_down", "")
}

func TestClientsIDIsEchoedOnlyIfItIsSane(t *testing.T) {
	r := newRig(t)
	if id := r.post("/v1/chat/completions", chatBody, "X-Request-Id", "run-7:a.b_c").Header.Get("x-request-id"); id != "run-7:a.b_c" {
		t.Errorf("got %q", id)
	}
	for _, bad := range []string{"a b", `a"b`, strings.Repeat("a", 129), "a;b"} {
		if id := r.post("/v1/chat/completions", chatBody, "X-Request-Id", bad).Header.Get("x-request-id"); len(id) != 32 {
			t.Errorf("%q: got %q", bad, id)
		}
	}
}
