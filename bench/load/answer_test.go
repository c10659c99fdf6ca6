package load

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
)

// reading is a connection that reads a text in parts of whatever size.
type reading struct {
	net.Conn
	r io.Reader
}

func (c reading) Read(p []byte) (int, error) { return c.r.Read(p) }

func readAnswer(r io.Reader) (body string, a *answer, err error) {
	a = &answer{c: &connection{socket: reading{r: r}, buf: make([]byte, 64)}}
	if err := a.readHead(); err != nil {
		return "", a, err
	}
	for {
		p, err := a.next()
		body += string(p)
		if err == io.EOF {
			return body, a, nil
		}
		if err != nil {
			return body, a, err
		}
	}
}

const okHead = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"

func TestAnswers(t *testing.T) {
	for _, row := range []struct {
		name, text, body string
		status           int
		reusable         bool
		err              error
	}{
		{"a body with a length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 200, true, nil},
		{"an empty body", "HTTP/1.1 429 Too Many\r\ncontent-length: 0\r\n\r\n", "", 429, true, nil},
		{"chunks", okHead + "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n", "hello world", 200, true, nil},
		{"chunks with a trailer", okHead + "transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\na: b\r\n\r\n", "hi", 200, true, nil},
		{"a chunk of hexadecimal size", okHead + "transfer-encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n", "0123456789", 200, true, nil},
		{"an answer after a 100", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", "hi", 200, true, nil},
		{"a closing server", "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi", "hi", 200, false, nil},
		{"a body to the end of the connection", "HTTP/1.0 200 OK\r\n\r\nhi", "hi", 200, false, nil},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", "", 204, true, nil},
		{"more than was announced", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi!", "hi", 200, false, nil},
		{"a short body", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell", "hell", 200, false, io.ErrUnexpectedEOF},
		{"a cut between two chunks", okHead + "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", "hello", 200, false, io.ErrUnexpectedEOF},
		{"a cut before the last line", okHead + "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", "hello", 200, false, io.ErrUnexpectedEOF},
		{"a chunk longer than its size", okHead + "transfer-encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n", "he", 200, false, errHead},
		{"no chunk size", okHead + "transfer-encoding: chunked\r\n\r\nxyz\r\n", "", 200, false, errHead},
		{"no HTTP", "hello there, this is no HTTP\r\n\r\n", "", 0, false, errHead},
		{"a bad length", "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", "", 200, false, errHead},
		{"nothing", "", "", 0, false, io.ErrUnexpectedEOF},
	} {
		t.Run(row.name, func(t *testing.T) {
			for how, r := range map[string]io.Reader{
				"at once": strings.NewReader(row.text), "byte by byte": iotest.OneByteReader(strings.NewReader(row.text)),
			} {
				body, a, err := readAnswer(r)
				if body != row.body || !errors.Is(err, row.err) || a.status != row.status {
					t.Errorf("%s: status %d, body %q, error %v", how, a.status, body, err)
				}
				extra := row.name == "more than was announced" && how == "byte by byte" // not read yet
				if a.reusable() != row.reusable && !extra {
					t.Errorf("%s: reusable is %v", how, a.reusable())
				}
			}
		})
	}
}

func TestHeaderBiggerThanTheBuffer(t *testing.T) {
	long := strings.Repeat("x", 3000)
	body, a, err := readAnswer(strings.NewReader("HTTP/1.1 200 OK\r\na: " + long + "\r\ncontent-length: 2\r\n\r\nhi"))
	if body != "hi" || err != nil || !a.reusable() {
		t.Errorf("body %q, error %v", body, err)
	}
	if _, _, err := readAnswer(strings.NewReader("HTTP/1.1 200 OK\r\na: " + strings.Repeat("x", 2*maxHead))); !errors.Is(err, errHead) {
		t.Errorf("a line without end: %v", err)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(okHead + "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc"))
	f.Fuzz(func(t *testing.T, text []byte) {
		whole, a, err := readAnswer(strings.NewReader(string(text)))
		parts, b, err2 := readAnswer(iotest.OneByteReader(strings.NewReader(string(text))))
		if whole != parts || a.status != b.status || (err == nil) != (err2 == nil) {
			t.Errorf("at once: %q %v; byte by byte: %q %v", whole, err, parts, err2)
		}
	})
}
