package load

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"mete/bench/sim"
)

func prompt(q *Request) string { return gjson.GetBytes(q.Body, "messages.0.content").String() }

func TestSyntheticRequestsAreReproducibleAndOfTheirLength(t *testing.T) {
	l := Lengths{Prompt: 200, Answer: 50, Spread: 0.2, Shared: 40}
	a, err := Synthetic(3, 20, l, Shape{Model: "m", IgnoreEOS: true, Extra: map[string]any{"temperature": 0}})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := Synthetic(3, 20, l, Shape{Model: "m", IgnoreEOS: true, Extra: map[string]any{"temperature": 0}})
	c, _ := Synthetic(4, 20, l, Shape{Model: "m"})
	shared := strings.Join(strings.Fields(prompt(a[0]))[:40], " ")
	lengths := map[int64]bool{}
	for i := range a {
		if string(a[i].Body) != string(b[i].Body) || string(a[i].Body) == string(c[i].Body) {
			t.Fatal("the seed does not decide")
		}
		if n := sim.CountTokens(prompt(a[i])); n < 150 || n > 250 || a[i].PromptTokens < 160 || a[i].PromptTokens > 240 {
			t.Errorf("prompt of %d tokens, said to be %d", n, a[i].PromptTokens)
		}
		if !strings.HasPrefix(prompt(a[i]), shared) || i > 0 && prompt(a[i]) == prompt(a[0]) {
			t.Error("prompts share too little or too much")
		}
		lengths[gjson.GetBytes(a[i].Body, "max_tokens").Int()] = true
	}
	if len(lengths) < 3 || lengths[39] || lengths[61] {
		t.Errorf("answers of %v tokens", lengths)
	}
	for path, want := range map[string]string{"stream": "true", "stream_options.include_usage": "true", "ignore_eos": "true", "temperature": "0", "model": `"m"`} {
		if got := gjson.GetBytes(a[0].Body, path).Raw; got != want {
			t.Errorf("%s is %s", path, got)
		}
	}
}

func TestTheCompletionEndpointGetsAPrompt(t *testing.T) {
	requests, err := Synthetic(1, 1, Lengths{Prompt: 20, Answer: 5}, Shape{Path: "/completions", Whole: true})
	if err != nil || !gjson.GetBytes(requests[0].Body, "prompt").Exists() || gjson.GetBytes(requests[0].Body, "messages").Exists() {
		t.Errorf("%s, %v", requests[0].Body, err)
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConversationsGivePromptsAndLengths(t *testing.T) {
	path := file(t, `[{"id":"a","conversations":[{"from":"human","value":"How are you?"},{"from":"gpt","value":"`+strings.Repeat("fine", 10)+`"}]},
		{"conversations":[{"from":"human","value":"alone"}]},
		{"conversations":[{"from":"human","value":"Second"},{"from":"gpt","value":"x"},{"from":"human","value":"y"}]}]`)
	requests, err := Conversations(path, 0, 0, Shape{Model: "m"})
	if err != nil || len(requests) != 2 {
		t.Fatalf("%d requests, %v", len(requests), err)
	}
	if prompt(requests[0]) != "How are you?" || gjson.GetBytes(requests[0].Body, "max_tokens").Int() != 10 || prompt(requests[1]) != "Second" {
		t.Errorf("%s and %s", requests[0].Body, requests[1].Body)
	}
	if one, _ := Conversations(path, 1, 77, Shape{}); len(one) != 1 || gjson.GetBytes(one[0].Body, "max_tokens").Int() != 77 {
		t.Errorf("%d requests", len(one))
	}
	for _, bad := range []string{`{}`, `[]`, `[{"conversations":[]}]`, `nonsense`} {
		if _, err := Conversations(file(t, bad), 0, 0, Shape{}); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

func TestTraceIsReplayed(t *testing.T) {
	path := file(t, `{"timestamp":1000,"input_length":1030,"output_length":5,"hash_ids":[1,2,3]}
{"timestamp":1250,"input_length":600,"output_length":7,"hash_ids":[1,9]}
{"timestamp":1250,"input_length":10,"output_length":1}`)
	requests, times, err := Trace(path, 1, Shape{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	if len(times) != 3 || times[0] != 0 || times[1] != 250*time.Millisecond || times[2] != times[1] {
		t.Errorf("times %v", times)
	}
	a, b := strings.Fields(prompt(requests[0])), strings.Fields(prompt(requests[1]))
	if len(a) != 1030 || len(b) != 600 || strings.Join(a[:512], " ") != strings.Join(b[:512], " ") || strings.Join(a[512:600], " ") == strings.Join(b[512:], " ") {
		t.Errorf("prompts of %d and %d words share the wrong part", len(a), len(b))
	}
	for name, bad := range map[string]string{
		"nothing":          "",
		"going back":       `{"timestamp":5,"input_length":1,"output_length":1}{"timestamp":4,"input_length":1,"output_length":1}`,
		"an empty prompt":  `{"timestamp":5,"input_length":0,"output_length":1}`,
		"something else":   `hello`,
		"half an object":   `{"timestamp":5,`,
		"an answer of one": `{"timestamp":5,"input_length":1}`,
	} {
		if _, _, err := Trace(file(t, bad), 1, Shape{}); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestTargets(t *testing.T) {
	for base, want := range map[string]string{
		"http://127.0.0.1:8080/v1": "127.0.0.1:8080 /v1", "https://api.example.com/v1/": "api.example.com:443 /v1",
		"http://[::1]": "[::1]:80 ", "https://h:1/a/v1": "h:1 /a/v1",
	} {
		got, err := ParseTarget(base)
		if err != nil || got.Address+" "+got.Prefix != want || strings.HasPrefix(base, "https") != (got.TLS != nil) {
			t.Errorf("%s: %q %q, %v", base, got.Address, got.Prefix, err)
		}
	}
	for _, bad := range []string{"", "127.0.0.1:8080", "ftp://x/v1", "http://", "http://%zz"} {
		if _, err := ParseTarget(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestKeysAreUsedInTurn(t *testing.T) {
	seen := make(chan string, 6)
	target, _ := replica(t, sim.Config{Observe: func(req *sim.Request) { seen <- req.Header("authorization") + req.Header("x-more") }})
	target.Keys, target.Header = []string{"one", "two"}, [][2]string{{"X-More", "!"}}
	run(t, Options{Target: target, Requests: synthetic(t, sim.Config{}, 1, 2, Shape{}), Concurrency: 1, Count: 4})
	for _, want := range []string{"Bearer one!", "Bearer two!", "Bearer one!", "Bearer two!"} {
		if got := <-seen; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestExpectationTellsEveryOtherByte(t *testing.T) {
	q := synthetic(t, sim.Config{}, 1, 6, Shape{})[0]
	body, err := sim.Render(sim.Config{Created: 1700000000}, "/v1/chat/completions", "some-id", q.Body)
	if err != nil {
		t.Fatal(err)
	}
	match := func(parts ...[]byte) bool {
		var m matcher
		m.reset(q.Expect)
		for _, p := range parts {
			m.feed(p)
		}
		return m.whole()
	}
	if !match(body) {
		t.Fatal("the right body does not match")
	}
	id, created := strings.Index(string(body), "some-id"), strings.Index(string(body), "1700000000")
	for i := range body {
		if !match(body[:i], body[i:]) {
			t.Fatalf("cut at %d it does not match", i)
		}
		if i < len(body) && match(body[:i]) {
			t.Errorf("the first %d bytes match", i)
		}
		other := append([]byte{}, body...)
		other[i] ^= 1
		// The first id and time are believed; all others must be the same.
		if within := i >= id && i < id+7 || i >= created && i < created+10; match(other) && !within {
			t.Errorf("byte %d may be another", i)
		}
	}
	if match(body, []byte("x")) {
		t.Error("more than the body matches")
	}
}
