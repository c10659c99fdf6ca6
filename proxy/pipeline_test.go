package proxy

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mete/bench/sim"
)

// TestEndOfAnAnswerDoesNotWaitForTheNextRequest: behind the first request lies
// a second one, whose answer does not come before the first has been seen to
// its end.
func TestEndOfAnAnswerDoesNotWaitForTheNextRequest(t *testing.T) {
	long := `{"object":"list","data":"` + strings.Repeat("x", wholeAnswer+100) + `"}`
	stream := events("\n", textChunk, doneChunk)
	for name, c := range map[string]struct{ wire, request, want string }{
		"a short answer":            {jsonWire("{}"), chatBody, "{}"},
		"a long answer":             {jsonWire(long), chatBody, long},
		"a long answer in chunks":   {chunkedJSON(long), chatBody, long},
		"a stream":                  {streamHead + chunk(stream) + lastChunk, streamBody, stream},
		"a stream of several parts": {streamHead + chunk(stream[:9]) + chunk(stream[9:]) + lastChunk, streamBody, stream},
	} {
		t.Run(name, func(t *testing.T) {
			seen := make(chan struct{})
			see := sync.OnceFunc(func() { close(seen) })
			var asked atomic.Int64
			r := newRig(t, withScript(func(q *sim.Request, conn net.Conn) error {
				if asked.Add(1) > 1 {
					<-seen
				}
				return answering(c.wire)(q, conn)
			}))
			request := postWire("/v1/chat/completions", c.request)
			client := r.open(request + request)
			t.Cleanup(see)
			for i := range 2 {
				if text := readBody(t, client.answer("POST")); text != c.want {
					t.Errorf("answer %d: %.200s", i, text)
				}
				see()
			}
			r.awaitIdle()
		})
	}
}

func chunkedJSON(text string) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(text) + lastChunk
}

// TestOldClientGetsItsAnswer: HTTP/1.0 knows no chunks. An answer whose length
// is not known ends with the connection.
func TestOldClientGetsItsAnswer(t *testing.T) {
	long := `{"object":"list","data":"` + strings.Repeat("x", wholeAnswer) + `"}`
	stream := events("\n", textChunk, textChunk, doneChunk)
	for name, c := range map[string]struct{ wire, request, want string }{
		"a short answer":          {jsonWire("{}"), chatBody, "{}"},
		"a long answer":           {jsonWire(long), chatBody, long},
		"a long answer in chunks": {chunkedJSON(long), chatBody, long},
		"a stream":                {streamHead + chunk(stream[:50]) + chunk(stream[50:]) + lastChunk, streamBody, stream},
	} {
		for _, connection := range []string{"", "Connection: keep-alive\r\n"} {
			t.Run(name+" "+connection, func(t *testing.T) {
				r := newRig(t, withScript(answering(c.wire)))
				client := r.open(oldWire(c.request, connection))
				response := client.answer("POST")
				if text := readBody(t, response); response.StatusCode != 200 || text != c.want {
					t.Errorf("status %d, %.200q", response.StatusCode, text)
				}
				if len(response.TransferEncoding) > 0 || response.Header.Get("x-request-id") == "" {
					t.Errorf("header %v, %v", response.TransferEncoding, response.Header)
				}
				if response.ContentLength < 0 && !response.Close {
					t.Error("neither a length nor connection: close")
				}
				if connection == "" || response.ContentLength < 0 {
					client.wantEnd()
				}
				r.awaitIdle()
			})
		}
	}
}

// oldWire is a whole request of HTTP/1.0, which needs no Host.
func oldWire(body, header string) string {
	return strings.NewReplacer("HTTP/1.1", "HTTP/1.0", "Host: x\r\n", header).Replace(postWire("/v1/chat/completions", body))
}

// TestOldClientSeesACut: where the connection's end is the answer's, a cut must
// look different, and does: it is a reset.
func TestOldClientSeesACut(t *testing.T) {
	stream := events("\n", textChunk)
	r := newRig(t, withScript(func(_ *sim.Request, c net.Conn) error {
		_, _ = io.WriteString(c, streamHead+chunk(stream)+chunk(stream))
		return io.EOF
	}))
	client := r.open(oldWire(streamBody, ""))
	response, err := http.ReadResponse(client.br, &http.Request{Method: "POST"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err == nil {
		t.Error("the cut looks like an end")
	}
	if !strings.HasPrefix(stream+stream+string(replicaCutEvent), string(text)) {
		t.Errorf("got %q", text)
	}
	r.awaitIdle()
}
