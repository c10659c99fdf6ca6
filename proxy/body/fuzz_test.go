package body

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func seeds() []string {
	return []string{
		chatWith(`"stream":true,"max_tokens":3,"n":2.0,"stream_options":{"include_usage":true},"temperature":0.5`),
		chatWith(`"\u006dodel":"x","stop":["a"],"response_format":{"type":"text"},"priority":1`),
		withMessages(`[{"role":"user","content":[{"type":"text","text":"a\ud83d\ude00\n"},{"type":"image_url","image_url":{"url":"data:,"}}]},{"role":"assistant","tool_calls":[{"id":"1"}]}]`),
		`{"model":"m","prompt":["a","b"],"max_tokens":0,"kv_transfer_params":{}}`,
		`{"model":"m","input":[[1,2],[3]],"vllm_xargs":{"kv_transfer_params":1}}`,
		"{\"model\":\"\xff\",\"a\":NaN}", `{"a":[1,-0.5e-7,true,false,null,"\"\\\/\b\f\n\r\t\u00e9",{}]}`,
	}
}

// FuzzLexer wants the lexer to take exactly what encoding/json takes.
func FuzzLexer(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l := lexer{b: b}
		l.space()
		l.skip()
		l.space()
		got := l.fault == nil && l.i == len(b)
		if l.fault != nil && strings.Contains(l.fault.Message, "too deep") {
			return
		}
		if want := json.Valid(b); got != want {
			t.Fatalf("valid: got %v, want %v (%v) for %q", got, want, l.fault, b)
		}
	})
}

// FuzzParse compares what Parse reads with what encoding/json reads.
func FuzzParse(f *testing.F) {
	for i, s := range seeds() {
		f.Add(byte(i), []byte(s))
	}
	f.Fuzz(func(t *testing.T, k byte, b []byte) {
		kind := Kind(k % 4)
		before := bytes.Clone(b)
		var s Scan
		err := s.Parse(kind, b)
		if !bytes.Equal(before, b) {
			t.Fatal("the body was written to")
		}
		if err != nil {
			checkFault(t, err, b)
			return
		}
		checkScan(t, &s, kind, b)
	})
}

// checkFault wants a message, and invalid_json only where that is true.
func checkFault(t *testing.T, err error, b []byte) {
	var f *Fault
	if !errors.As(err, &f) || f.Status != 400 || f.Message == "" || !utf8.ValidString(f.Message) {
		t.Fatalf("bad fault: %#v", err)
	}
	if f.Code != CodeInvalidJSON || strings.Contains(f.Message, "too deep") {
		return
	}
	if json.Valid(b) && bytes.TrimLeft(b, " \t\r\n")[0] == '{' {
		t.Fatalf("valid JSON is refused: %s: %q", f.Message, b)
	}
}

func checkScan(t *testing.T, s *Scan, kind Kind, b []byte) {
	var m struct { // with exact names only: encoding/json ignores case otherwise
		any map[string]any
	}
	if err := json.Unmarshal(b, &m.any); err != nil {
		t.Fatalf("encoding/json refuses: %v: %q", err, b)
	}
	times := map[string]int{}
	for _, p := range pairs(t, b) {
		times[p.name]++
		if lookup([]byte(p.name))&actedOn[kind] != 0 && times[p.name] > 1 {
			t.Fatalf("%s is there twice: %q", p.name, b)
		}
	}
	if m.any["model"] != string(s.Model) || len(s.Model) == 0 {
		t.Fatalf("model: got %q, want %v", s.Model, m.any["model"])
	}
	if stream, _ := m.any["stream"].(bool); stream != s.Stream {
		t.Fatalf("stream: got %v: %q", s.Stream, b)
	}
	if got, want := float64(s.MaxTokens), referenceMax(kind, m.any); got != want {
		t.Fatalf("max tokens: got %v, want %v: %q", got, want, b)
	}
	if (m.any["priority"] != nil) != s.Priority {
		t.Fatalf("priority: got %v: %q", s.Priority, b)
	}
	if m.any["kv_transfer_params"] != nil && !s.KVTransferParams {
		t.Fatalf("transfer parameters are missed: %q", b)
	}
	if s.PromptBytes < 0 || s.PromptBytes+s.PromptTokens > int64(len(b)) || s.Prompts < 1 {
		t.Fatalf("counts: %+v: %q", s, b)
	}
	if kind == Chat {
		checkMessages(t, m.any)
	}
}

// referenceMax is MaxTokens by the rules, from parsed values.
func referenceMax(kind Kind, m map[string]any) float64 {
	value := func(name string) float64 {
		if v, ok := m[name].(float64); ok {
			return v
		}
		return -1
	}
	switch kind {
	case Chat:
		if v := value("max_completion_tokens"); v >= 0 {
			return v
		}
		return value("max_tokens")
	case Completions:
		return value("max_tokens")
	case Other:
		return max(value("max_completion_tokens"), value("max_tokens"), value("max_output_tokens"))
	}
	return -1
}

func checkMessages(t *testing.T, m map[string]any) {
	messages, _ := m["messages"].([]any)
	if len(messages) == 0 {
		t.Fatal("no messages")
	}
	for _, one := range messages {
		message, _ := one.(map[string]any)
		role, _ := message["role"].(string)
		if !strings.Contains(" system developer user assistant tool function ", " "+role+" ") {
			t.Fatalf("role %q", role)
		}
		switch message["content"].(type) {
		case string, []any:
		default:
			if message["content"] != nil || role != "assistant" {
				t.Fatalf("content %v of %q", message["content"], role)
			}
		}
	}
}

// FuzzSplice wants a spliced body to differ from the client's in exactly the
// intended members.
func FuzzSplice(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s), "up", "top_k", []byte(`20`))
		f.Add([]byte(s), "", "stop", []byte(` {"a":[1]}`))
	}
	f.Fuzz(func(t *testing.T, b []byte, model, name string, value []byte) {
		if !utf8.ValidString(name+model) || strings.ContainsRune(name, utf8.RuneError) {
			return
		}
		m, err := NewMember(name, value)
		if err != nil {
			return
		}
		var s Scan
		if s.Parse(Other, b) != nil {
			return
		}
		quoted, err := json.Marshal(model)
		if err != nil {
			t.Fatal(err)
		}
		segments := s.Splice(nil, quoted, []Member{m})
		out := bytes.Join(segments, nil)
		if Len(segments) != len(out) {
			t.Fatalf("length %d, want %d", Len(segments), len(out))
		}
		want := pairs(t, b)
		found := false
		for i, p := range want {
			switch p.name {
			case "model":
				want[i].raw = string(quoted)
			case name:
				want[i].raw, found = string(bytes.TrimSpace(value)), true
			}
		}
		if !found {
			want = append(want, pair{name, string(bytes.TrimSpace(value))})
		}
		if got := pairs(t, out); !reflect.DeepEqual(got, want) {
			t.Fatalf("\ngot  %q\nwant %q\nfrom %q\nto   %q", got, want, b, out)
		}
	})
}

type pair struct{ name, raw string }

// pairs are the members of an object, in order, duplicates included.
func pairs(t *testing.T, b []byte) (out []pair) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	token := func() json.Token {
		tok, err := d.Token()
		if err != nil {
			t.Fatalf("%v: %q", err, b)
		}
		return tok
	}
	token()
	for d.More() {
		name, _ := token().(string)
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			t.Fatalf("%v: %q", err, b)
		}
		out = append(out, pair{name, string(raw)})
	}
	token()
	return out
}
