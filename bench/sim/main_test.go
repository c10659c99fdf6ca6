package sim

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	chatPath = "/v1/chat/completions"
	hello    = `{"model":"sim","messages":[{"role":"user","content":"hello"}]}`
	streamed = `{"model":"sim","stream":true,"messages":[{"role":"user","content":"hello"}]}`
)

func start(t testing.TB, cfg Config) *Replica {
	t.Helper()
	r, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// client has connections of its own, so that no idle one outlives the test.
func client(t testing.TB) *http.Client {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

// do sends one request; header is name and value in turn. err is the error of
// reading the body.
func do(t testing.TB, r *Replica, method, path, body string, header ...string) (resp *http.Response, got []byte, err error) {
	t.Helper()
	req, err := http.NewRequest(method, r.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err = client(t).Do(req)
	if err != nil {
		return nil, nil, err
	}
	got, err = io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	return resp, got, err
}

func post(t testing.TB, r *Replica, path, body string, header ...string) (int, string) {
	t.Helper()
	resp, got, err := do(t, r, http.MethodPost, path, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(got)
}

// rawConn is a client that sees every byte.
type rawConn struct {
	*net.TCPConn
	br *bufio.Reader
}

func dial(t testing.TB, r *Replica) *rawConn {
	t.Helper()
	c, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return &rawConn{c.(*net.TCPConn), bufio.NewReader(c)}
}

func rawPost(path, body string, header ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n", path, len(body))
	for _, h := range header {
		b.WriteString(h + "\r\n")
	}
	return b.String() + "\r\n" + body
}

func (c *rawConn) send(t testing.TB, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// rest reads to the end of the connection.
func (c *rawConn) rest() (string, error) {
	var b bytes.Buffer
	_, err := io.Copy(&b, c.br)
	return b.String(), err
}

// until reads up to and including mark.
func (c *rawConn) until(t testing.TB, mark string) string {
	t.Helper()
	var b strings.Builder
	for !strings.HasSuffix(b.String(), mark) {
		ch, err := c.br.ReadByte()
		if err != nil {
			t.Fatalf("after %q: %v", b.String(), err)
		}
		b.WriteByte(ch)
	}
	return b.String()
}

func await(t testing.TB, r *Replica, cond func(Stats) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := r.Await(ctx, cond); err != nil {
		t.Fatalf("%v: %+v", err, r.Stats())
	}
}

func mustContain(t testing.TB, got string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in %q", want, got)
		}
	}
}
