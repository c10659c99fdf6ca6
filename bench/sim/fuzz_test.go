package sim

import (
	"bufio"
	"strings"
	"testing"
)

func FuzzRequest(f *testing.F) {
	f.Add(rawPost(chatPath, hello))
	f.Add("GET /health?x HTTP/1.0\r\na:b\r\n\r\n")
	f.Add("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		var r Request
		br := bufio.NewReaderSize(strings.NewReader(text), 16)
		if r.readHead(br) != nil {
			return
		}
		if !strings.Contains(text, string(r.Head)) || !strings.HasPrefix(r.Path, "/") {
			t.Fatalf("head %q, path %q of %q", r.Head, r.Path, text)
		}
		if r.readBody(br, 1<<10, func() error { return nil }) == nil && len(r.Body) > min(1<<10, len(text)) {
			t.Fatalf("body of %d bytes out of %d", len(r.Body), len(text))
		}
	})
}

func FuzzParseFault(f *testing.F) {
	f.Add("cut; at=123; how=rst")
	f.Add("hang; where=event; after=3; for=2s")
	f.Fuzz(func(t *testing.T, text string) {
		if fault, err := ParseFault(text); err == nil && (fault.At < 0 || fault.After < 0 || fault.Factor < 0) {
			t.Fatalf("%+v", fault)
		}
	})
}

// No body makes the simulator panic, and what it answers fits the window.
func FuzzAnswer(f *testing.F) {
	f.Add(hello)
	f.Add(streamed)
	f.Add(`{"n":2,"stop":[""," "],"max_tokens":3,"messages":[{"role":"user","content":[{"type":"text"}]}],"tools":[{}],"tool_choice":"required"}`)
	f.Add(`{"response_format":{"type":"json_object"},"min_tokens":99999,"chat_template_kwargs":{"thinking":true},"messages":[{"role":"user","content":"x"}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		cfg := Config{MaxModelLen: 200, Created: 1}
		q, bad := parseCall(chatPath, []byte(body))
		if bad != nil || q.n > 10 {
			return
		}
		out, err := Render(cfg, chatPath, "id", []byte(body))
		if err == nil && len(out) == 0 {
			t.Fatal("no answer")
		}
	})
}
