package proxy

import (
	"bytes"
	"net/url"

	"github.com/valyala/fasthttp"

	"mete/proxy/trace"
)

// requestHead is what the gateway reads in a request's header. Its slices are
// fasthttp's, valid until the exchange is closed.
type requestHead struct {
	key          []byte // the bearer key, nil for none
	keys         int    // Authorization headers
	clientID     []byte // the client's own x-request-id, if it is sane
	contentType  []byte
	encoding     []byte // Content-Encoding
	traceparent  []byte // W3C trace context; empty, not nil, if there are several
	tracestate   []byte // all values, joined by commas, if they may be passed on
	forwardedFor []byte // all values of X-Forwarded-For, joined by commas

	length, chunked bool // how the body is framed
	expects         bool // 100-continue
}

var (
	refuseHeader = callerRefusal(400, "malformed_request", "",
		"The request's header is not valid HTTP/1.1: each line is a name, a colon and a value, and ends with CR LF.")
	refuseFraming = callerRefusal(400, "malformed_request", "",
		"The request's body must be framed by one Content-Length, or by Transfer-Encoding: chunked, and not by both.")
	refuseTarget  = callerRefusal(400, "malformed_request", "", "The request's target must be a path, on the host that the Host header names.")
	refuseVersion = callerRefusal(505, "http_version_not_supported", "", "The gateway speaks HTTP/1.1.")
	refuseExpect  = callerRefusal(417, "malformed_request", "", "The only expectation that can be met is 100-continue.")
)

// read goes over the header once, and refuses what another party on the way
// might read otherwise (RFC 9112): fasthttp takes bare LF, folded lines, blanks
// in names, two framings of one body, and any HTTP version.
func (h *requestHead) read(header *fasthttp.RequestHeader) *refusal {
	switch string(header.Protocol()) {
	case "HTTP/1.1", "HTTP/1.0":
	default:
		return refuseVersion
	}
	h.contentType = header.ContentType()
	for raw := header.RawHeaders(); len(raw) > 0; {
		end := bytes.IndexByte(raw, '\n')
		if end < 1 || raw[end-1] != '\r' {
			return refuseHeader
		}
		if end == 1 {
			break
		}
		if r := h.line(raw[:end-1]); r != nil {
			return r
		}
		raw = raw[end+1:]
	}
	switch {
	case h.keys > 1:
		return refuseTwoKeys
	case h.length && h.chunked:
		return refuseFraming
	case !sameHost(header.RequestURI(), header.Host()):
		return refuseTarget
	}
	return nil
}

// line reads one field line.
func (h *requestHead) line(line []byte) *refusal {
	colon := bytes.IndexByte(line, ':')
	if colon < 1 || !isToken(line[:colon]) {
		return refuseHeader
	}
	return h.field(line[:colon], bytes.Trim(line[colon+1:], " \t"))
}

// field notes one header field. Names are compared without case; the length
// decides first, because most fields are none of these.
func (h *requestHead) field(name, value []byte) *refusal {
	switch len(name) {
	case len("expect"):
		if is(name, "expect") {
			return h.expect(value)
		}
	case len("tracestate"):
		if is(name, "tracestate") {
			h.traceState(value)
		}
	case len("traceparent"):
		if is(name, "traceparent") {
			h.traceParent(value)
		}
	case len("x-request-id"):
		if is(name, "x-request-id") && isSaneID(value) {
			h.clientID = value
		}
	case len("authorization"):
		if is(name, "authorization") {
			h.authorization(value)
		}
	case len("content-length"):
		h.length = h.length || is(name, "content-length")
	case len("x-forwarded-for"):
		if is(name, "x-forwarded-for") {
			h.forwarded(value)
		}
	case len("content-encoding"):
		if is(name, "content-encoding") {
			h.encoding = value
		}
	case len("transfer-encoding"):
		if is(name, "transfer-encoding") {
			return h.transferEncoding(value)
		}
	}
	return nil
}

// traceParent notes the one traceparent; of several, none counts (W3C).
func (h *requestHead) traceParent(value []byte) {
	if h.traceparent != nil {
		value = value[:0]
	}
	h.traceparent = value
}

func (h *requestHead) traceState(value []byte) {
	if h.tracestate != nil {
		value = append(append(bytes.Clone(h.tracestate), ','), value...)
	}
	if h.tracestate = value; !trace.ValidState(value) {
		h.tracestate = value[:0]
	}
}

func (h *requestHead) forwarded(value []byte) {
	if h.forwardedFor == nil {
		h.forwardedFor = value
		return
	}
	h.forwardedFor = append(append(bytes.Clone(h.forwardedFor), ','), value...)
}

func is(name []byte, want string) bool { return bytes.EqualFold(name, []byte(want)) }

func (h *requestHead) expect(value []byte) *refusal {
	if !is(value, "100-continue") {
		return refuseExpect
	}
	h.expects = true
	return nil
}

func (h *requestHead) transferEncoding(value []byte) *refusal {
	if h.chunked || !is(value, "chunked") {
		return refuseFraming
	}
	h.chunked = true
	return nil
}

var bearer = []byte("bearer ")

func (h *requestHead) authorization(value []byte) {
	h.keys++
	if len(value) < len(bearer) || !bytes.EqualFold(value[:len(bearer)], bearer) {
		return
	}
	if key := bytes.TrimSpace(value[len(bearer):]); len(key) > 0 {
		h.key = key
	}
}

// checkContent refuses a body that a replica could not read.
func (h *requestHead) checkContent() error {
	mediaType, _, _ := bytes.Cut(h.contentType, []byte(";"))
	if !is(bytes.TrimSpace(mediaType), "application/json") {
		return callerRefusal(415, "unsupported_media_type", "", "The body must be JSON, sent with the header Content-Type: application/json.")
	}
	if len(h.encoding) > 0 && !is(h.encoding, "identity") {
		return callerRefusal(415, "unsupported_media_type", "", "The body must not be compressed: leave out the header Content-Encoding.")
	}
	return nil
}

// sameHost reports whether a request's target is a path, or a whole URL whose
// host is that of the Host header.
func sameHost(target, host []byte) bool {
	if len(target) > 0 && target[0] == '/' {
		return true
	}
	u, err := url.Parse(string(target))
	return err == nil && u.Host != "" && is(host, u.Host) && u.User == nil
}

// isToken tells whether a field name is one (RFC 9110, section 5.6.2).
func isToken(name []byte) bool {
	for _, c := range name {
		if !tokenBytes[c] {
			return false
		}
	}
	return true
}

var tokenBytes = func() (table [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		table[c] = true
	}
	return table
}()

// isSaneID tells whether a client's request id may be echoed and logged: up to
// 128 letters, digits and . _ : -
func isSaneID(id []byte) bool {
	if len(id) == 0 || len(id) > 128 {
		return false
	}
	for _, c := range id {
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9', c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}

var expectMark = []byte("xpect")

// findExpect makes fasthttp see an Expect that is spelled otherwise than it
// looks for, as many clients do.
func findExpect(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if bytes.Contains(header.RawHeaders(), expectMark) || bytes.Contains(header.RawHeaders(), []byte("XPECT")) {
		var h requestHead
		if h.read(header) == nil && h.expects {
			header.Set("Expect", "100-continue")
		}
	}
	return fasthttp.RequestConfig{}
}
