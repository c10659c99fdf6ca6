package load

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Target is where requests go. Make it with ParseTarget.
type Target struct {
	Address string      // host:port, the only address that a run talks to
	Host    string      // as the Host header says it
	Prefix  string      // of every path, such as "/v1"
	TLS     *tls.Config // nil for http
	Keys    []string    // bearer tokens, used in turn; none sends no Authorization
	Header  [][2]string // further header fields
}

// ParseTarget reads a base URL like http://127.0.0.1:8080/v1.
func ParseTarget(base string) (Target, error) {
	u, err := url.Parse(base)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return Target{}, fmt.Errorf("base URL %q: want http://HOST:PORT/v1", base)
	}
	t := Target{Host: u.Host, Prefix: strings.TrimRight(u.Path, "/")}
	port := u.Port()
	if u.Scheme == "https" {
		t.TLS = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	t.Address = net.JoinHostPort(u.Hostname(), port)
	return t, nil
}

// Request is one request of a run. A run uses its requests many times over and
// never changes them.
type Request struct {
	Path         string // below the target's prefix, such as /chat/completions
	Body         []byte // JSON
	PromptTokens int    // estimate, used where the answer has no usage
	Expect       *Expectation

	prelude []byte // request line and header, up to the key
	middle  []byte // the rest of the header
}

// prepare makes the bytes that all uses of the request share.
func (q *Request) prepare(t *Target) {
	b := append([]byte("POST "), t.Prefix+q.Path+" HTTP/1.1\r\nHost: "+t.Host+"\r\n"...)
	b = append(b, "Content-Type: application/json\r\nAccept: */*\r\nUser-Agent: mete-bench\r\n"...)
	for _, field := range t.Header {
		b = append(b, field[0]+": "+field[1]+"\r\n"...)
	}
	b = strconv.AppendInt(append(b, "Content-Length: "...), int64(len(q.Body)), 10)
	if len(t.Keys) > 0 {
		b = append(b, "\r\nAuthorization: Bearer "...)
	}
	q.prelude, q.middle = b, []byte("\r\n\r\n")
}
