package proxy

import "bytes"

// message reads a request as it comes in, as strictly as RFC 9112 has it, and
// finds where it ends. The zero value waits for a request to begin.
//
// It decides nothing but what is a request and what is not; fasthttp parses it,
// and requestHead reads its fields, once they have passed here.
type message struct {
	state  messageState
	line   []byte     // a line that has come in part, in earlier reads
	left   int64      // bytes left of a body of known length
	chunks framedBody // the framing of any other body

	http11  bool
	hosted  bool  // there is a Host field
	sized   bool  // there is a Content-Length field,
	length  int64 // of this many bytes
	chunked bool  // there is a Transfer-Encoding field
}

type messageState byte

const (
	betweenRequests messageState = iota
	emptyLineCR                  // CR of an empty line before a request
	emptyLineLF                  // the whole of it
	requestLine                  // from here on there is a request
	fieldLine
	sizedBody
	framedPart
)

var (
	refuseHeader = callerRefusal(400, "malformed_request", "",
		"The request's header is not valid HTTP/1.1: each line is a name, a colon and a value, and ends with CR LF.")
	refuseLine = callerRefusal(400, "malformed_request", "",
		"The request line is not valid HTTP/1.1: it is a method, a target and a version, with one blank between them, and ends with CR LF.")
	refuseHost = callerRefusal(400, "malformed_request", "",
		"The request must have one Host header, which names a host.")
	refuseFraming = callerRefusal(400, "malformed_request", "",
		"The request's body must be framed by one Content-Length, or by Transfer-Encoding: chunked, and not by both.")
	refuseVersion = callerRefusal(505, "http_version_not_supported", "", "The gateway speaks HTTP/1.1.")
)

// over reports whether the message has been read to its end.
func (m *message) over() bool { return m.state < requestLine }

// skip returns how many bytes before a request are not part of it: one empty
// line, as some clients send behind a body (RFC 9112, section 2.2).
func (m *message) skip(p []byte) int {
	n := 0
	for n < len(p) && m.state < requestLine {
		switch {
		case p[n] == '\r' && m.state == betweenRequests:
			m.state = emptyLineCR
		case p[n] == '\n' && m.state == emptyLineCR:
			m.state = emptyLineLF
		default:
			return n
		}
		n++
	}
	return n
}

// take reads on in p, and returns how many bytes of it belong to the message.
func (m *message) take(p []byte) (n int, err error) {
	for n < len(p) {
		switch m.state {
		case sizedBody:
			k := min(m.left, int64(len(p)-n))
			n += int(k)
			m.left -= k
		case framedPart:
			n += m.chunks.pass(p[n:])
			if m.chunks.err == errFraming {
				return 0, refuseHalfBody
			}
		default:
			k, r := m.takeLine(p[n:])
			if r != nil {
				return 0, r
			}
			n += k
		}
		if m.finish() {
			break
		}
	}
	return n, nil
}

// finish prepares for the next message once this one is whole.
func (m *message) finish() bool {
	if m.state == sizedBody && m.left == 0 || m.state == framedPart && m.chunks.err != nil {
		*m = message{}
		return true
	}
	return false
}

// takeLine reads a line of the header, or as much as there is of it.
func (m *message) takeLine(p []byte) (int, *refusal) {
	if m.over() {
		if m.state == emptyLineCR || !tokenBytes[p[0]] { // TLS, for example
			return 0, refuseLine
		}
		m.state = requestLine
	}
	end := bytes.IndexByte(p, '\n')
	if end < 0 {
		m.line = append(m.line, p...) // fasthttp bounds it: it asks for no more than a header may have
		return len(p), nil
	}
	line := p[:end+1]
	if len(m.line) > 0 {
		m.line = append(m.line, line...)
		line, m.line = m.line, nil
	}
	return end + 1, m.header(line)
}

// header reads a whole line, and what must hold of the header when it ends.
func (m *message) header(line []byte) *refusal {
	n := len(line) - len("\r\n")
	switch {
	case n < 0 || line[n] != '\r':
		return refuseHeader
	case m.state == requestLine:
		m.state = fieldLine
		return m.request(line[:n])
	case n > 0:
		return m.field(line[:n])
	case m.http11 && !m.hosted:
		return refuseHost
	case m.chunked && (m.sized || !m.http11):
		return refuseFraming
	case m.chunked:
		m.state = framedPart
		m.chunks.resetChunked(nil)
		m.chunks.strict = true
		return nil
	}
	m.state, m.left = sizedBody, m.length
	return nil
}

// request reads the request line (section 3).
func (m *message) request(line []byte) *refusal {
	method, rest, _ := bytes.Cut(line, []byte(" "))
	target, version, _ := bytes.Cut(rest, []byte(" "))
	if !consistsOf(method, &tokenBytes) || !consistsOf(target, &targetBytes) {
		return refuseLine
	}
	m.http11 = string(version) == "HTTP/1.1"
	switch {
	case m.http11, string(version) == "HTTP/1.0":
		return nil
	case isVersion(version):
		return refuseVersion
	}
	return refuseLine
}

func isVersion(v []byte) bool {
	return len(v) == len("HTTP/1.1") && string(v[:5]) == "HTTP/" && isDigit(v[5]) && v[6] == '.' && isDigit(v[7])
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// field reads a field line (section 5). A fold begins with a blank, which is in
// no name.
func (m *message) field(line []byte) *refusal {
	name, value, found := bytes.Cut(line, []byte(":"))
	if !found || !consistsOf(name, &tokenBytes) {
		return refuseHeader
	}
	for _, c := range value {
		if !valueBytes[c] {
			return refuseHeader
		}
	}
	switch len(name) {
	case len("host"):
		if is(name, "host") {
			return m.host(trimBlanks(value))
		}
	case len("content-length"):
		if is(name, "content-length") {
			return m.contentLength(trimBlanks(value))
		}
	case len("transfer-encoding"):
		if is(name, "transfer-encoding") {
			return m.transferEncoding(trimBlanks(value))
		}
	}
	return nil
}

func (m *message) host(value []byte) *refusal {
	if m.hosted || !consistsOf(value, &hostBytes) {
		return refuseHost
	}
	m.hosted = true
	return nil
}

// contentLength takes digits only: eighteen are the most that cannot overflow.
func (m *message) contentLength(value []byte) *refusal {
	if m.sized || len(value) == 0 || len(value) > 18 {
		return refuseFraming
	}
	for _, c := range value {
		if !isDigit(c) {
			return refuseFraming
		}
		m.length = 10*m.length + int64(c-'0')
	}
	m.sized = true
	return nil
}

func (m *message) transferEncoding(value []byte) *refusal {
	if m.chunked || !is(value, "chunked") {
		return refuseFraming
	}
	m.chunked = true
	return nil
}
