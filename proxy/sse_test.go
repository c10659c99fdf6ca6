package proxy

import (
	"strings"
	"testing"
)

const (
	roleChunk   = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	textChunk   = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a \"b\""},"finish_reason":null}]}`
	finishChunk = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	usageChunk  = `data: {"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":2}}`
	abortChunk  = `data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"abort"}]}`
	errorChunk  = `data: {"error": {"message":"out of memory","type":"InternalServerError","code":500}}`
	doneChunk   = `data: [DONE]`
)

// events joins events with the line end given.
func events(lineEnd string, all ...string) string {
	return strings.Join(all, lineEnd+lineEnd) + lineEnd + lineEnd
}

// feedIn feeds s in pieces of n bytes.
func feedIn(s string, n int) *sseReader {
	r := &sseReader{}
	r.reset(true)
	for len(s) > n {
		r.feed([]byte(s[:n]))
		s = s[n:]
	}
	r.feed([]byte(s))
	return r
}

func TestStreamIsFollowedHoweverItIsCut(t *testing.T) {
	for _, lineEnd := range []string{"\n", "\r\n", "\r"} {
		stream := events(lineEnd, ": comment", roleChunk, textChunk, textChunk, finishChunk, usageChunk, doneChunk)
		for n := 1; n <= len(stream); n++ {
			r := feedIn(stream, n)
			if r.events != 6 || r.deltas != 2 || r.textBytes != 14 || !r.done || !r.boundary || r.aborted || r.failure != nil {
				t.Fatalf("line end %q in pieces of %d: %+v", lineEnd, n, r)
			}
			if r.usage != (usage{prompt: 7, completion: 2, known: true}) {
				t.Fatalf("line end %q in pieces of %d: usage %+v", lineEnd, n, r.usage)
			}
		}
	}
}

func TestStreamStates(t *testing.T) {
	for name, c := range map[string]struct {
		stream string
		check  func(r *sseReader) bool
	}{
		"an error event is noted whole": {events("\n", errorChunk, doneChunk), func(r *sseReader) bool {
			return string(r.failure) == strings.TrimPrefix(errorChunk, "data: ") && r.failedFirst
		}},
		"an error after text is not the first event": {events("\n", textChunk, errorChunk), func(r *sseReader) bool {
			return r.failure != nil && !r.failedFirst
		}},
		"an error that is a string": {events("\n", `data: {"error":"Unauthorized"}`), func(r *sseReader) bool { return r.failedFirst }},
		"a null error is none":      {events("\n", `data: {"error":null,"choices":[]}`), func(r *sseReader) bool { return r.failure == nil }},
		"an abort":                  {events("\n", textChunk, abortChunk), func(r *sseReader) bool { return r.aborted }},
		"no space behind data:":     {events("\n", `data:[DONE]`), func(r *sseReader) bool { return r.done }},
		"the last event is not ended": {textChunk, func(r *sseReader) bool {
			return !r.boundary && r.events == 0
		}},
		"the last line is ended, its event is not": {textChunk + "\n", func(r *sseReader) bool { return !r.boundary && r.events == 0 }},
		"an overlong line counts as one delta": {"data: " + strings.Repeat("x", 2*maxEventLine) + "\n\n", func(r *sseReader) bool {
			return r.events == 1 && r.deltas == 1 && r.boundary && len(r.line) == 0
		}},
		"tool calls are deltas": {events("\n", `data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{\"a\""}}]}}]}`), func(r *sseReader) bool {
			return r.deltas == 1
		}},
		"reasoning is a delta":   {events("\n", `data: {"choices":[{"delta":{"reasoning":"hm"}}]}`), func(r *sseReader) bool { return r.deltas == 1 }},
		"completions are deltas": {events("\n", `data: {"choices":[{"text":"hm"}]}`), func(r *sseReader) bool { return r.deltas == 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{1, 7, 1000, 1 << 20} {
				if r := feedIn(c.stream, n); !c.check(r) {
					t.Errorf("in pieces of %d: %+v", n, r)
				}
			}
		})
	}
}

func TestFirstEventIsJudgedAsSoonAsItBeginsOtherwiseThanAnError(t *testing.T) {
	for stream, want := range map[string]bool{
		"":                        false,
		"data":                    false,
		"data: ":                  false,
		`data: {"err`:             false,
		`data: {"error":{"messa`:  false,
		`data: {"id":"chat`:       true,
		"data: [DONE] ":           true,
		": comment\n\n":           false,
		"event: error\ndata: {\"": false,
		events("\n", errorChunk):  true,
		events("\n", textChunk):   true,
	} {
		if got := feedIn(stream, 3).judged(); got != want {
			t.Errorf("%q: judged is %v", stream, got)
		}
	}
}

func TestUsageIsNotLookedForUnlessAsked(t *testing.T) {
	r := &sseReader{}
	r.reset(false)
	r.feed([]byte(events("\n", usageChunk)))
	if r.usage.known {
		t.Error("usage was read")
	}
}

func FuzzSSE(f *testing.F) {
	f.Add([]byte(events("\n", roleChunk, textChunk, usageChunk, doneChunk)), 3)
	f.Add([]byte(events("\r\n", errorChunk, abortChunk)), 1)
	f.Add([]byte("data: x\r\rdata: y\n\n\r\n"), 2)
	f.Fuzz(func(t *testing.T, stream []byte, n int) {
		n = 1 + n&0xff
		whole, pieces := feedIn(string(stream), len(stream)+1), feedIn(string(stream), n)
		if whole.events != pieces.events || whole.deltas != pieces.deltas || whole.done != pieces.done ||
			whole.boundary != pieces.boundary || whole.usage != pieces.usage || (whole.failure == nil) != (pieces.failure == nil) {
			t.Fatalf("at once: %+v\nin pieces of %d: %+v", whole, n, pieces)
		}
		if whole.events > int64(len(stream)) || len(pieces.line) > maxEventLine {
			t.Fatalf("%+v", pieces)
		}
	})
}
