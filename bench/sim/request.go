package sim

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Request is one parsed HTTP request. Its slices belong to the connection and
// are valid until the request has been answered.
type Request struct {
	Method string
	Path   string // without the query
	Query  string
	Head   []byte // request line and header lines as they came, with the final blank line
	Body   []byte // decoded when it came chunked

	fields  []field
	minor   byte // of HTTP/1.x
	gone    <-chan struct{}
	discard []byte // keeps the body's buffer for the next request
}

type field struct{ name, value string }

const maxHead = 64 << 10 // h11 and httptools refuse longer ones as well

var (
	errBadRequest = errors.New("invalid http request received")
	errTooLarge   = errors.New("request entity too large")
)

// Header returns the first value of the field with this name, in any case.
func (r *Request) Header(name string) string {
	for _, f := range r.fields {
		if strings.EqualFold(f.name, name) {
			return f.value
		}
	}
	return ""
}

// Headers returns the values of all fields with this name.
func (r *Request) Headers(name string) []string {
	var all []string
	for _, f := range r.fields {
		if strings.EqualFold(f.name, name) {
			all = append(all, f.value)
		}
	}
	return all
}

// Gone is closed when the client has closed or reset the connection.
func (r *Request) Gone() <-chan struct{} { return r.gone }

// readHead reads up to the blank line and parses what it has read.
func (r *Request) readHead(br *bufio.Reader) error {
	r.Head, r.fields, r.Body = r.Head[:0], r.fields[:0], nil
	for {
		line, err := br.ReadSlice('\n')
		r.Head = append(r.Head, line...)
		if err != nil && err != bufio.ErrBufferFull {
			return err
		}
		if len(r.Head) > maxHead {
			return errBadRequest
		}
		if err == nil && len(bytes.TrimRight(line, "\r\n")) == 0 {
			if len(r.Head) > 2 {
				return r.parseHead()
			}
			r.Head = r.Head[:0] // blank lines before a request are skipped (RFC 9112, 2.2)
		}
	}
}

func (r *Request) parseHead() error {
	text := string(r.Head)
	line, rest, _ := strings.Cut(text, "\n")
	if err := r.parseLine(strings.TrimRight(line, "\r")); err != nil {
		return err
	}
	for rest != "" {
		line, rest, _ = strings.Cut(rest, "\n")
		line = strings.TrimRight(line, "\r")
		if line == "" {
			return nil
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			return errBadRequest
		}
		r.fields = append(r.fields, field{name, strings.Trim(value, " \t")})
	}
	return errBadRequest
}

func (r *Request) parseLine(line string) error {
	method, rest, ok1 := strings.Cut(line, " ")
	target, proto, ok2 := strings.Cut(rest, " ")
	if !ok1 || !ok2 || method == "" || !strings.HasPrefix(target, "/") {
		return errBadRequest
	}
	if proto != "HTTP/1.1" && proto != "HTTP/1.0" {
		return errBadRequest
	}
	r.Method, r.minor = method, proto[len(proto)-1]-'0'
	r.Path, r.Query, _ = strings.Cut(target, "?")
	return nil
}

// readBody reads the body, if there is one. expect is called when the client
// waits for a 100.
func (r *Request) readBody(br *bufio.Reader, limit int64, expect func() error) error {
	chunked := strings.EqualFold(r.Header("transfer-encoding"), "chunked")
	length := r.Header("content-length")
	if !chunked && length == "" {
		return nil
	}
	if chunked && length != "" {
		return errBadRequest
	}
	if strings.EqualFold(r.Header("expect"), "100-continue") {
		if err := expect(); err != nil {
			return err
		}
	}
	if chunked {
		return r.readChunks(br, limit)
	}
	n, err := strconv.ParseUint(length, 10, 62)
	if err != nil {
		return errBadRequest
	}
	return r.grow(br, int64(n), limit)
}

// grow appends n bytes from br to the body. The buffer grows with what has
// arrived, not with what was announced.
func (r *Request) grow(br *bufio.Reader, n, limit int64) error {
	if r.Body == nil {
		r.Body = r.discard[:0]
	}
	if int64(len(r.Body))+n > limit {
		return errTooLarge
	}
	for n > 0 {
		step := int(min(n, 1<<20))
		at := len(r.Body)
		r.Body = append(r.Body, make([]byte, step)...)
		if _, err := io.ReadFull(br, r.Body[at:]); err != nil {
			return err
		}
		n -= int64(step)
	}
	if r.discard = r.Body[:0]; cap(r.discard) > 1<<20 {
		r.discard = nil
	}
	return nil
}

func (r *Request) readChunks(br *bufio.Reader, limit int64) error {
	for {
		line, err := readLine(br)
		if err != nil {
			return err
		}
		size, _, _ := strings.Cut(line, ";")
		n, err := strconv.ParseUint(strings.TrimSpace(size), 16, 62)
		if err != nil {
			return fmt.Errorf("chunk size %q: %w", size, errBadRequest)
		}
		if n == 0 {
			return skipTrailer(br)
		}
		if err := r.grow(br, int64(n), limit); err != nil {
			return err
		}
		if line, err := readLine(br); err != nil || line != "" {
			return errors.Join(errBadRequest, err)
		}
	}
}

func skipTrailer(br *bufio.Reader) error {
	for {
		line, err := readLine(br)
		if err != nil || line == "" {
			return err
		}
	}
}

func readLine(br *bufio.Reader) (string, error) {
	line, err := br.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	return string(bytes.TrimRight(line, "\r\n")), nil
}
