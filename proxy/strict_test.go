package proxy

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"mete/bench/sim"
)

const (
	nextRequest = "GET /health HTTP/1.1\r\nHost: next\r\nConnection: close\r\n\r\n"
	smuggled    = "GET /health HTTP/1.1\r\nHost: smuggled\r\n\r\n"
)

// strictRequests are what parties on the way to the gateway may read in another
// way than it does. Behind each comes nextRequest. answers are the statuses of
// all answers, with the code of an error; behind the last of them the gateway
// must have closed the connection.
func strictRequests() map[string]struct{ wire, answers string } {
	const (
		malformed = "400 malformed_request"
		version   = "505 http_version_not_supported"
	)
	length := fmt.Sprintf("Content-Length: %d\r\n", len(chatBody))
	body := length + "\r\n" + chatBody
	chunked := "Transfer-Encoding: chunked\r\n"
	chunks := chunk(chatBody) + lastChunk
	head := postHead("/v1/chat/completions")
	with := func(old, replacement string) string { return strings.Replace(head, old, replacement, 1) }
	get := "GET /v1/models HTTP/1.1\r\nHost: x\r\n"
	return map[string]struct{ wire, answers string }{
		"a body with a length":               {head + body, "200, 200"},
		"a body in chunks":                   {head + chunked + "\r\n" + chunks, "200, 200"},
		"a length before chunks":             {head + length + chunked + "\r\n" + chunks, malformed},
		"chunks before a length":             {head + chunked + length + "\r\n" + chunks, malformed},
		"identity and a length":              {head + "Transfer-Encoding: identity\r\n" + body, malformed},
		"identity before a smuggled request": {strings.Replace(get, "GET", "POST", 1) + "Transfer-Encoding: identity\r\n\r\n" + smuggled, malformed},
		"identity on a GET":                  {get + "Transfer-Encoding: identity\r\n\r\n", malformed},
		"another coding before chunks":       {head + "Transfer-Encoding: gzip, chunked\r\n\r\n" + chunks, malformed},
		"chunked twice":                      {head + chunked + chunked + "\r\n" + chunks, malformed},
		"two lengths":                        {head + length + body, malformed},
		"two lengths that differ":            {head + "Content-Length: 3\r\n" + body, malformed},
		"a length with a sign":               {head + strings.Replace(body, ": ", ": +", 1), malformed},
		"a length with an underscore":        {head + "Content_Length: 3\r\n" + body, "200, 200"},
		"lines that end with LF":             {strings.ReplaceAll(head+length+"\r\n", "\r\n", "\n") + chatBody, malformed},
		"a request line that ends with LF":   {strings.Replace(head, "\r\n", "\n", 1) + body, malformed},
		"a bare LF before the request":       {"\n" + head + body, malformed},
		"an empty line before the request":   {"\r\n" + head + body, "200, 200"},
		"one line that ends with LF":         {head + "X-A: b\n" + body, malformed},
		"a folded line":                      {head + "X-A: b\r\n  folded\r\n" + body, malformed},
		"a folded line that is passed on":    {head + "traceparent: b\r\n X-Vllm-Priority: 1\r\n" + body, malformed},
		"CR in a value that is passed on":    {head + "traceparent: b\rX: 1\r\n" + body, malformed},
		"NUL in a value":                     {head + "X-A: b\x00c\r\n" + body, malformed},
		"a blank in a name":                  {head + "X A: b\r\n" + body, malformed},
		"a blank before the colon":           {head + "X-A : b\r\n" + body, malformed},
		"a line without a colon":             {head + "X-A\r\n" + body, malformed},
		"a line without a name":              {head + ": b\r\n" + body, malformed},
		"two keys":                           {head + "authorization: Bearer sk-mete-other\r\n" + body, malformed},
		"HTTP/9.9":                           {with("HTTP/1.1", "HTTP/9.9") + body, version},
		"the preface of HTTP/2":              {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", version},
		"no host":                            {with("Host: x\r\n", "") + body, malformed},
		"the URL of another host":            {with("/v1", "http://evil/v1") + body, malformed},
		"a tunnel":                           {"CONNECT evil:443 HTTP/1.1\r\nHost: evil:443\r\n\r\n", malformed},
		"an expectation that is not known":   {head + "Expect: a-miracle\r\n" + body, "417 malformed_request"},
		"LF behind a chunk's size":           {head + chunked + "\r\n" + strings.Replace(chunks, "\r\n", "\n", 1), malformed},
		"LF in a chunk's extension":          {head + chunked + "\r\n" + strings.Replace(chunks, "\r\n", ";a=\"b\nc\"\r\n", 1), malformed},
		"a trailer with a key":               {head + chunked + "\r\n" + chunk(chatBody) + "0\r\nAuthorization: x\r\n\r\n", malformed},
		"a GET that holds another request":   {get + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(smuggled)) + smuggled, "200"},
		"a GET in chunks":                    {get + chunked + "\r\n" + lastChunk, "200"},
		"a GET that waits to hold another":   {get + fmt.Sprintf("Expect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(smuggled)) + smuggled, "100, 200"},
		"a HEAD of an endpoint":              {"HEAD /v1/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n", "405, 200"},
	}
}

func TestRequestsThatOthersMightReadOtherwiseAreRefused(t *testing.T) {
	var reached atomic.Int64
	r := newRig(t, withScript(func(q *sim.Request, c net.Conn) error {
		reached.Add(1)
		return answering(jsonWire("{}"))(q, c)
	}))
	for name, c := range strictRequests() {
		for _, whole := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, whole %v", name, whole), func(t *testing.T) {
				before := reached.Load()
				method, _, _ := strings.Cut(strings.TrimLeft(c.wire, "\r\n"), " ")
				if got := r.answersTo(t, c.wire+nextRequest, method, whole); got != c.answers {
					t.Errorf("got %s, want %s", got, c.answers)
				}
				if n := reached.Load() - before; n != 0 && (method != "POST" || c.answers != "200, 200") {
					t.Errorf("%d requests reached the replica", n)
				}
			})
		}
	}
}

// answersTo sends wire, in one write or in one for every byte, and tells what
// came back until the connection was closed.
func (r *rig) answersTo(t *testing.T, wire, method string, whole bool) string {
	pieces := []string{wire}
	if !whole {
		pieces = strings.Split(wire, "")
	}
	client := r.open("")
	client.T = t
	for _, p := range pieces {
		client.send(p)
	}
	var all []string
	for !client.ended() {
		response := client.answer(method)
		if response.StatusCode != 100 {
			if response.Header.Get("x-request-id") == "" {
				t.Errorf("%d: no x-request-id", response.StatusCode)
			}
			method = "GET" // of what comes next
		}
		var refused struct{ Error struct{ Code string } }
		_ = json.Unmarshal([]byte(readBody(t, response)), &refused)
		all = append(all, strings.TrimSpace(fmt.Sprint(response.StatusCode, " ", refused.Error.Code)))
	}
	return strings.Join(all, ", ")
}
