package proxy

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// requestHead is what the gateway reads in a request's header. Its slices are
// fasthttp's, valid until the exchange is closed.
type requestHead struct {
	key         []byte // the bearer key, nil for none
	keys        int    // Authorization headers
	clientID    []byte // the client's own x-request-id, if it is sane
	contentType []byte
	encoding    []byte // Content-Encoding
	traceparent []byte // W3C trace context, passed on
	tracestate  []byte
}

var bearer = []byte("bearer ")

// read goes over the header once. It returns a refusal for a request that no
// endpoint may see.
func (h *requestHead) read(header *fasthttp.RequestHeader) *refusal {
	h.contentType = header.ContentType()
	for name, value := range header.All() {
		h.field(name, value)
	}
	if h.keys > 1 {
		return refuseTwoKeys
	}
	return nil
}

// field notes one header field. Names are compared without case; the length
// decides first, because most fields are none of these.
func (h *requestHead) field(name, value []byte) {
	switch len(name) {
	case len("tracestate"):
		if bytes.EqualFold(name, []byte("tracestate")) {
			h.tracestate = value
		}
	case len("traceparent"):
		if bytes.EqualFold(name, []byte("traceparent")) {
			h.traceparent = value
		}
	case len("x-request-id"):
		if bytes.EqualFold(name, []byte("x-request-id")) && isSaneID(value) {
			h.clientID = value
		}
	case len("authorization"):
		if bytes.EqualFold(name, []byte("authorization")) {
			h.authorization(value)
		}
	case len("content-encoding"):
		if bytes.EqualFold(name, []byte("content-encoding")) {
			h.encoding = value
		}
	}
}

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
	if !bytes.EqualFold(bytes.TrimSpace(mediaType), []byte("application/json")) {
		return callerRefusal(415, "unsupported_media_type", "", "The body must be JSON, sent with the header Content-Type: application/json.")
	}
	if len(h.encoding) > 0 && !bytes.EqualFold(h.encoding, []byte("identity")) {
		return callerRefusal(415, "unsupported_media_type", "", "The body must not be compressed: leave out the header Content-Encoding.")
	}
	return nil
}

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
