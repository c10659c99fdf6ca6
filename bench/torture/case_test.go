package torture

import (
	"fmt"
	"strings"
)

// A row is one connection's bytes and the verdict on them. Behind them comes
// next, so that the verdict tells also whether the connection could go on.
type row struct {
	name string
	wire string
	want string // the statuses of all answers, until the connection has ended
}

const (
	key      = "sk-mete-0123456789abcdef0123456789abcdef01234567"
	chat     = "/v1/chat/completions"
	question = `{"model":"mete","messages":[{"role":"user","content":"hello"}]}`
	next     = "GET /health HTTP/1.1\r\nHost: next\r\nConnection: close\r\n\r\n"
	hidden   = "POST " + chat + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + "\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

	line   = "POST " + chat + " HTTP/1.1\r\n"
	host   = "Host: x\r\n"
	fields = "Authorization: Bearer " + key + "\r\nContent-Type: application/json\r\n"
	inBits = "Transfer-Encoding: chunked\r\n"
)

// Verdicts.
const (
	passes  = "200 200" // and next is answered
	bad     = "400"
	version = "505"
	tooBig  = "431"
)

var sized = fmt.Sprintf("Content-Length: %d\r\n", len(question))

// lined is a request with another request line.
func lined(first string) string { return first + host + fields + sized + "\r\n" + question }

// with is a request with more header lines, each with its own end.
func with(lines string) string { return line + host + fields + lines + sized + "\r\n" + question }

// framed is a request with other framing fields, and a body.
func framed(lines, body string) string { return line + host + fields + lines + "\r\n" + body }

// inChunks is a request with a body in chunks, whose framing is body's.
func inChunks(body string) string { return framed(inBits, body) }

// chunk is text as one chunk.
func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// everyRow is all themes together.
func everyRow() []row {
	var all []row
	for _, theme := range []struct {
		name string
		rows []row
	}{
		{"line", lines()}, {"target", targets()}, {"field", fieldRows()}, {"host", hosts()}, {"length", lengths()}, {"coding", codings()},
		{"chunk", chunks()}, {"trailer", trailers()}, {"sequence", sequences()}, {"meaning", meanings()}, {"size", sizes()},
	} {
		for _, r := range theme.rows {
			r.name = theme.name + ": " + r.name
			all = append(all, r)
		}
	}
	return all
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }
