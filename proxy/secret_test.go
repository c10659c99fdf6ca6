package proxy

import (
	"io"
	"net"
	"strings"
	"testing"

	"mete/bench/sim"
)

// TestKeyInABrokenRequestIsNotLogged puts the key where a message about the
// request might quote it. Every request is written down, and the gateway logs
// before it closes the connection.
func TestKeyInABrokenRequestIsNotLogged(t *testing.T) {
	const post = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
	r := newRig(t)
	for i, wire := range []string{
		post + "Authorization: Bearer " + testKey + "\x01\r\n\r\n",
		post + "Authorization: Bearer " + testKey + "\rx\r\n\r\n",
		post + "Bearer " + testKey + " : x\r\n\r\n",
		post + testKey + "\r\n\r\n",
		post + "Transfer-Encoding: " + testKey + "\r\n\r\n",
		post + "Content-Length: " + testKey + "\r\n\r\n",
		post + "Authorization: Bearer " + testKey + "\r\nCookie: " + strings.Repeat("y", 9000) + "\r\n\r\n",
		post + "Authorization: Bearer " + testKey + "\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + testKey + "\r\n",
		"POST /v1?key=" + testKey + " HTTP/x\r\nHost: x\r\n\r\n",
		"POST /v1?key=" + testKey + " HTTP/9.9\r\nHost: x\r\n\r\n",
		"POST /v1/" + testKey + "\r\nHost: x\r\n\r\n",
		"POST http://[" + testKey + "/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST http://" + testKey + "/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: " + testKey + "/%%\r\n\r\n",
		"GET /v1/models/" + testKey + "/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"GET /" + testKey + "?key=" + testKey + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		testKey + " / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		testKey + "\r\n\r\n",
	} {
		client := r.open(wire)
		answer, _ := io.ReadAll(client.br)
		status, _, _ := strings.Cut(string(answer), "\r\n")
		log := r.log.String()
		if !strings.HasPrefix(status, "HTTP/1.1 4") && !strings.HasPrefix(status, "HTTP/1.1 505") {
			t.Errorf("%.90q was answered with %q", wire, status)
		}
		if n := strings.Count(log, "\n"); n != i+1 {
			t.Errorf("%d lines were logged for %d requests", n, i+1)
		}
		if strings.Contains(log, testKey[10:]) || strings.Contains(string(answer[:strings.Index(string(answer), "\r\n\r\n")]), testKey[10:]) {
			t.Fatalf("the key of %.90q is told: %s\n%s", wire, answer, log)
		}
	}
}

// TestWhatAReplicaSendsInPlaceOfAHeaderIsNotLogged: after a mix-up it may be
// somebody's answer.
func TestWhatAReplicaSendsInPlaceOfAHeaderIsNotLogged(t *testing.T) {
	for name, wire := range map[string]string{
		"a line that is no field": "HTTP/1.1 200 OK\r\nX-Prompt SECRET\r\n\r\n",
		"no status line":          "the answer is SECRET text that was left over\r\n\r\n",
		"no status":               "HTTP/1.1 SECRET\r\n\r\n",
		"a length that is none":   "HTTP/1.1 200 OK\r\nContent-Length: SECRET\r\n\r\n",
		"a header without an end": "HTTP/1.1 200 OK\r\nX-Prompt: SECRET" + strings.Repeat("x", answerBuffer),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withScript(func(_ *sim.Request, c net.Conn) error {
				_, _ = io.WriteString(c, wire)
				return io.EOF
			}))
			wantError(t, r.post("/v1/chat/completions", chatBody), 502, "replica_failed", "")
			r.awaitIdle()
			if line := r.log.String(); !strings.Contains(line, `"failure":"read answer's header: `) || strings.Contains(line, "SECRET") {
				t.Error(line)
			}
		})
	}
}

func TestAKeyInTheWrongFieldIsNoRequestID(t *testing.T) {
	for id, want := range map[string]bool{
		"req-1:a_b.c": true, "": false, "a b": false, "sk-mete-0123456789abcdef0123456789abcdef01234567": false,
	} {
		if got := isSaneID([]byte(id)); got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
}
