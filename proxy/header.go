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

	expects bool // 100-continue
	closes  bool // the client wants no further answer on its connection
}

var (
	refuseTarget = callerRefusal(400, "malformed_request", "", "The request's target must be a path, on the host that the Host header names.")
	refuseExpect = callerRefusal(417, "malformed_request", "", "The only expectation that can be met is 100-continue.")
)

// read goes over the header, which has passed the gate: every line of it is
// well-formed, and its framing is plain.
func (h *requestHead) read(header *fasthttp.RequestHeader) *refusal {
	h.contentType = header.ContentType()
	for raw := header.RawHeaders(); len(raw) > 2; {
		end := bytes.IndexByte(raw, '\n')
		colon := bytes.IndexByte(raw, ':')
		if colon < 0 || end < colon {
			break // the empty line
		}
		if r := h.field(raw[:colon], trimBlanks(raw[colon+1:end-1])); r != nil {
			return r
		}
		raw = raw[end+1:]
	}
	switch {
	case h.keys > 1:
		return refuseTwoKeys
	case !sameHost(header.RequestURI(), header.Host()):
		return refuseTarget
	}
	return nil
}

// field notes one header field. Names are compared without case; the length
// decides first, because most fields are none of these.
func (h *requestHead) field(name, value []byte) *refusal {
	switch len(name) {
	case len("expect"):
		if is(name, "expect") {
			return h.expect(value)
		}
	case len("connection"):
		if is(name, "connection") {
			h.connection(value)
		} else if is(name, "tracestate") { // as long
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
	case len("x-forwarded-for"):
		if is(name, "x-forwarded-for") {
			h.forwarded(value)
		}
	case len("content-encoding"):
		if is(name, "content-encoding") {
			h.encoding = value
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

// is reports whether they are the same but for the case of letters in ASCII:
// bytes.EqualFold knows others, which are longer.
func is(name []byte, want string) bool {
	return len(name) == len(want) && bytes.EqualFold(name, []byte(want))
}

func (h *requestHead) expect(value []byte) *refusal {
	if h.expects || !is(value, "100-continue") {
		return refuseExpect
	}
	h.expects = true
	return nil
}

// connection notes the option close, which fasthttp sees only where it stands
// alone and in lower case.
func (h *requestHead) connection(value []byte) {
	for option := range bytes.SplitSeq(value, []byte(",")) {
		h.closes = h.closes || is(trimBlanks(option), "close")
	}
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
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && is(host, u.Host) && u.User == nil
}

// isSaneID tells whether a client's request id may be echoed and logged: up to
// 128 letters, digits and . _ : -, and not what may be a key in the wrong field.
func isSaneID(id []byte) bool {
	if len(id) == 0 || len(id) > 128 || bytes.HasPrefix(id, []byte("sk-")) {
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
// looks for, as many clients do, and none of a client that cannot read the
// answer to it.
func findExpect(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if !bytes.Contains(header.RawHeaders(), expectMark) && !bytes.Contains(header.RawHeaders(), []byte("XPECT")) {
		return fasthttp.RequestConfig{}
	}
	var h requestHead
	switch {
	case !header.IsHTTP11():
		header.Del("Expect")
	case h.read(header) == nil && h.expects:
		header.Set("Expect", "100-continue")
	}
	return fasthttp.RequestConfig{}
}
