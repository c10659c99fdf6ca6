package load

import (
	"slices"
	"strings"
	"testing"
)

func split(parts ...string) (events []string) {
	var s splitter
	for _, p := range parts {
		s.feed([]byte(p), func(event []byte) { events = append(events, string(event)) })
	}
	return events
}

func TestEventsAreFoundWhereverTheReadsEnd(t *testing.T) {
	text := "data: a\n\nevent: x\ndata: b\n\ndata: c\r\n\r\n: comment\n\ndata: [DONE]\n\n"
	want := []string{"data: a\n\n", "event: x\ndata: b\n\n", "data: c\r\n\r\n", ": comment\n\n", "data: [DONE]\n\n"}
	if got := split(text); !slices.Equal(got, want) {
		t.Fatalf("at once: %q", got)
	}
	if got := split(strings.Split(text, "")...); !slices.Equal(got, want) {
		t.Errorf("byte by byte: %q", got)
	}
	for i := range text {
		if got := split(text[:i], text[i:]); !slices.Equal(got, want) {
			t.Errorf("cut at %d: %q", i, got)
		}
	}
}

func TestEventsAreClassified(t *testing.T) {
	for _, row := range []struct {
		event string
		want  kind
	}{
		{`data: {"id":"x","choices":[{"index":0,"delta":{}}]}`, token},
		{`data:{"choices" : [ {"index":0}]}`, token},
		{`data: {"choices":[{"delta":{"content":"\"error\":"}}]}`, token},
		{`data: {"choices":[],"usage":{"prompt_tokens":1}}`, usage},
		{`data: {"error":{"code":500}}`, failure},
		{`data: [DONE]`, done},
		{`data:[DONE]`, done},
		{`: ping`, other},
		{"event: message\ndata: {\"choices\":[{\"index\":0}]}", token},
		{`data: {"choices":[]}`, other},
	} {
		if got := classify([]byte(row.event + "\n\n")); got != row.want {
			t.Errorf("%s is %d, want %d", row.event, got, row.want)
		}
	}
}

func FuzzSplitter(f *testing.F) {
	f.Add("data: a\n\ndata: b\r\n\r\n", 9)
	f.Fuzz(func(t *testing.T, text string, at int) {
		whole := split(text)
		if at = max(0, min(at, len(text))); !slices.Equal(whole, split(text[:at], text[at:])) {
			t.Errorf("%q cut at %d is split otherwise", text, at)
		}
		if joined := strings.Join(whole, ""); !strings.HasPrefix(text, joined) {
			t.Errorf("events of %q are %q", text, joined)
		}
	})
}
