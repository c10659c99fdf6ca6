package sim

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// chunks returns the data of each event but the last, which must be [DONE].
func chunks(t *testing.T, body string) []string {
	t.Helper()
	events := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
	if last := events[len(events)-1]; last != "data: [DONE]" {
		t.Fatalf("stream ends with %q", last)
	}
	for i, e := range events {
		events[i] = strings.TrimPrefix(e, "data: ")
		if i < len(events)-1 && !json.Valid([]byte(events[i])) {
			t.Errorf("event %d is not JSON: %q", i, e)
		}
	}
	return events[:len(events)-1]
}

func TestStreamHasVLLMsEvents(t *testing.T) {
	r := start(t, Config{OutputTokens: 3, Created: 1700000000})
	_, body := post(t, r, chatPath, `{"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`, "X-Request-Id", "abc")
	got := chunks(t, body)
	if len(got) != 6 {
		t.Fatalf("%d events: %q", len(got), got)
	}
	const head = `{"id":"chatcmpl-abc","object":"chat.completion.chunk","created":1700000000,"model":"sim","choices":[`
	for i, want := range []string{
		head + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`,
		head + `{"index":0,"delta":{"content":"`, head + `{"index":0,"delta":{"content":" `, head + `{"index":0,"delta":{"content":" `,
		head + `{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null}]}`,
		head + `],"usage":{"prompt_tokens":8,"total_tokens":11,"completion_tokens":3,"prompt_tokens_details":null}}`,
	} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("event %d: %q, want %q", i, got[i], want)
		}
	}
}

func TestUsageComesOnlyWhenAsked(t *testing.T) {
	r := start(t, Config{OutputTokens: 3})
	if _, body := post(t, r, chatPath, streamed); strings.Contains(body, "usage") {
		t.Error("usage without include_usage")
	}
	_, body := post(t, r, chatPath, `{"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"messages":[{"role":"user","content":"hi"}]}`)
	if n := strings.Count(body, `"usage":{`); n != 4 {
		t.Errorf("%d usages with continuous_usage_stats, want one per token and the last", n)
	}
}

func TestRenderIsWhatArrives(t *testing.T) {
	cfg := Config{Models: []string{"first", "second"}, LoRA: []string{"tuned"}, Seed: 9, Created: 1700000000, OutputTokens: 30, OutputSpread: 0.5, Reasoning: "both"}
	r := start(t, cfg)
	const tools = `"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"x":{"type":"string"}}}}}]`
	for _, row := range []struct{ name, path, body string }{
		{"a stream", chatPath, streamed},
		{"a whole answer", chatPath, hello},
		{"several choices", chatPath, `{"n":3,"stream":true,"messages":[{"role":"user","content":"hi"}]}`},
		{"several whole choices", chatPath, `{"n":3,"max_tokens":4,"messages":[{"role":"user","content":"hi"}]}`},
		{"thinking", chatPath, `{"stream":true,"chat_template_kwargs":{"enable_thinking":true},"messages":[{"role":"user","content":"hi"}]}`},
		{"whole thinking", chatPath, `{"chat_template_kwargs":{"enable_thinking":true},"messages":[{"role":"user","content":"hi"}]}`},
		{"a tool call", chatPath, `{"stream":true,"tool_choice":"required",` + tools + `,"messages":[{"role":"user","content":"hi"}]}`},
		{"a whole tool call", chatPath, `{"tool_choice":"required",` + tools + `,"messages":[{"role":"user","content":"hi"}]}`},
		{"an image", chatPath, `{"messages":[{"role":"user","content":[{"type":"text","text":"what?"},{"type":"image_url","image_url":{"url":"data:x"}}]}]}`},
		{"completions", "/v1/completions", `{"prompt":["a","b"],"n":2,"stream":true,"stream_options":{"include_usage":true}}`},
		{"whole completions", "/v1/completions", `{"prompt":[1,2,3],"stop":"."}`},
		{"messages", "/v1/messages", `{"stream":true,"max_tokens":9,"system":"be brief","messages":[{"role":"user","content":"hi"}]}`},
		{"a whole message", "/v1/messages", `{"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`},
		{"a message's tool", "/v1/messages", `{"stream":true,"max_tokens":90,"tool_choice":{"type":"any"},"tools":[{"name":"f","input_schema":{"properties":{"x":{}}}}],"messages":[{"role":"user","content":"hi"}]}`},
		{"a response", "/v1/responses", `{"stream":true,"input":"hi"}`},
		{"a whole response", "/v1/responses", `{"input":[{"role":"user","content":"hi"}],"instructions":"be brief"}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			for model, named := range map[string]string{"second": "first", "tuned": "tuned"} {
				body := strings.Replace(strings.Replace(row.body, `"model":"sim",`, ``, 1), `{`, `{"model":"`+model+`",`, 1)
				want, err := Render(cfg, row.path, "id-1", []byte(body))
				if err != nil {
					t.Fatal(err)
				}
				status, got := post(t, r, row.path, body, "X-Request-Id", "id-1")
				if status != 200 || got != string(want) {
					t.Errorf("status %d, got\n%s\nwant\n%s", status, got, want)
				}
				if !strings.Contains(got, `"model":"`+named+`"`) {
					t.Errorf("model is not %q in %s", named, got)
				}
				if !strings.Contains(row.body, `"stream"`) && !json.Valid([]byte(got)) {
					t.Errorf("not JSON: %s", got)
				}
			}
		})
	}
}

func TestTextIsTheContentOfTheStream(t *testing.T) {
	r := start(t, Config{})
	_, body := post(t, r, chatPath, streamed)
	var got strings.Builder
	for _, c := range chunks(t, body) {
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal([]byte(c), &chunk); err != nil {
			t.Fatal(err)
		}
		got.WriteString(chunk.Choices[0].Delta.Content)
	}
	want, err := Text(Config{}, chatPath, []byte(streamed))
	if err != nil || got.String() != want || want == "" {
		t.Errorf("got %q, want %q, %v", got.String(), want, err)
	}
}

// recorder is a connection that keeps what each Write brought.
type recorder struct {
	net.Conn
	writes []string
}

func (c *recorder) Write(p []byte) (int, error) {
	c.writes = append(c.writes, string(p))
	return len(p), nil
}

func TestEveryEventIsOneWrite(t *testing.T) {
	r := start(t, Config{OutputTokens: 5})
	rec := &recorder{}
	x := &exchange{r: r, cfg: &r.cfg, conn: rec}
	x.reset(&Request{Method: "POST", Path: chatPath, minor: 1, Body: []byte(streamed), fields: []field{{"Content-Type", "application/json"}}})
	if err := r.handle(x); err != nil {
		t.Fatal(err)
	}
	if len(rec.writes) != 1+1+5+1+1+1 {
		t.Fatalf("%d writes: %q", len(rec.writes), rec.writes)
	}
	if !strings.HasSuffix(rec.writes[0], "\r\n\r\n") || rec.writes[9] != "0\r\n\r\n" {
		t.Errorf("first %q, last %q", rec.writes[0], rec.writes[9])
	}
	for _, w := range rec.writes[1:9] {
		size, rest, _ := strings.Cut(w, "\r\n")
		if !strings.HasPrefix(rest, "data: ") || !strings.HasSuffix(rest, "\n\n\r\n") || size == "0" {
			t.Errorf("not an event in a chunk: %q", w)
		}
	}
}

func TestTheHeaderComesAtOnceAndTheFirstByteWithTheFirstToken(t *testing.T) {
	p := FixedProfile(300*ms, ms, 0)
	r := start(t, Config{Profile: &p, OutputTokens: 3})
	c := dial(t, r)
	began := time.Now()
	c.send(t, rawPost(chatPath, streamed))
	mustContain(t, c.until(t, "\r\n\r\n"), "HTTP/1.1 200 OK\r\n", "transfer-encoding: chunked", "text/event-stream")
	head := time.Since(began)
	c.until(t, "data: ")
	if first := time.Since(began); first < 290*ms || head > first/2 {
		t.Errorf("header after %v, first event after %v", head, first)
	}
	c.until(t, "[DONE]\n\n\r\n0\r\n\r\n")
}

func TestAWholeAnswerComesAfterItsLastToken(t *testing.T) {
	p := FixedProfile(40*ms, 10*ms, 0)
	r := start(t, Config{Profile: &p, OutputTokens: 11})
	began := time.Now()
	status, body := post(t, r, chatPath, hello)
	if took := time.Since(began); status != http.StatusOK || took < 140*ms {
		t.Errorf("%d after %v: %s", status, took, body)
	}
}

func TestTheCacheShowsInUsageAndMetrics(t *testing.T) {
	p := plain()
	p.StepBase, p.PerPrefillToken, p.Blocks = ms, 0, 10000
	r := start(t, Config{Profile: &p, Details: true, OutputTokens: 2})
	body := `{"messages":[{"role":"user","content":"` + strings.Repeat("many words ", 40) + `"}]}`
	_, cold := post(t, r, chatPath, body)
	_, warm := post(t, r, chatPath, body)
	_, salted := post(t, r, chatPath, strings.Replace(body, `{`, `{"cache_salt":"s",`, 1))
	mustContain(t, cold, `"cached_tokens":0}`)
	mustContain(t, warm, `"cached_tokens":84}`)
	mustContain(t, salted, `"cached_tokens":0}`)
	_, page, err := do(t, r, http.MethodGet, "/metrics", "")
	if err != nil {
		t.Fatal(err)
	}
	mustContain(t, string(page), `vllm:prefix_cache_hits_total{engine="0",model_name="sim"} 84.0`,
		`vllm:time_to_first_token_seconds_count{engine="0",model_name="sim"} 3.0`,
		`vllm:generation_tokens_total{engine="0",model_name="sim"} 6.0`)
}
