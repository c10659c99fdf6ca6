package trace

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
)

// SpanID names a span; all zeros is none.
type SpanID [8]byte

// Context is where a request stands in a trace. The zero Context is outside of
// any.
type Context struct {
	TraceID [16]byte
	Parent  SpanID // the caller's span, or zeros where the trace begins here
	Span    SpanID // the gateway's own span of the request; zeros unless Sampled
	Sampled bool   // spans are made
	Given   bool   // the caller has named the trace
	flags   byte   // as they are passed on
}

// The flags of a traceparent.
const (
	flagSampled = 1
	flagRandom  = 2 // the trace id was drawn at random
)

// headerLength is that of a traceparent of version 00.
const headerLength = 55

// Parse reads a traceparent. What is not valid, as W3C says, is as good as
// none.
func Parse(value []byte) (c Context, ok bool) {
	if len(value) < headerLength || value[2] != '-' || value[35] != '-' || value[52] != '-' {
		return Context{}, false
	}
	var version, flags [1]byte
	ok = unhex(version[:], value[:2]) && unhex(c.TraceID[:], value[3:35]) && unhex(c.Parent[:], value[36:52]) && unhex(flags[:], value[53:55])
	switch {
	case !ok, version[0] == 0xff, c.TraceID == [16]byte{}, c.Parent == SpanID{}:
		return Context{}, false
	case len(value) > headerLength && (version[0] == 0 || value[headerLength] != '-'):
		return Context{}, false
	}
	c.flags, c.Given = flags[0]&(flagSampled|flagRandom), true
	return c, true
}

// unhex decodes lower-case hex.
func unhex(dst, src []byte) bool {
	for _, c := range src {
		if c >= 'A' && c <= 'F' {
			return false
		}
	}
	_, err := hex.Decode(dst, src)
	return err == nil
}

// maxState bounds the tracestate that is passed on, in bytes: W3C asks for 512
// at the least.
const maxState = 512

// ValidState reports whether a tracestate may be passed on.
func ValidState(value []byte) bool {
	if len(value) > maxState {
		return false
	}
	for _, c := range value {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// Known reports whether the request belongs to a trace.
func (c *Context) Known() bool { return c.TraceID != [16]byte{} }

// AppendTraceID appends the trace's id in hex.
func (c *Context) AppendTraceID(dst []byte) []byte { return hex.AppendEncode(dst, c.TraceID[:]) }

// AppendHeader appends the traceparent for a request that span makes; zeros
// stand for no span of ours, and the caller's is passed on.
func (c *Context) AppendHeader(dst []byte, span SpanID) []byte {
	if span == (SpanID{}) {
		span = c.Parent
	}
	dst = append(dst, "00-"...)
	dst = hex.AppendEncode(dst, c.TraceID[:])
	dst = append(dst, '-')
	dst = hex.AppendEncode(dst, span[:])
	return append(dst, '-', '0', '0'+c.flags)
}

// NewSpanID draws the id of a span.
func NewSpanID() (id SpanID) {
	for id == (SpanID{}) {
		putRandom(id[:])
	}
	return id
}

// begin draws a trace's id.
func (c *Context) begin() {
	for !c.Known() {
		putRandom(c.TraceID[:8])
		putRandom(c.TraceID[8:])
	}
	c.flags = flagRandom
}

func putRandom(dst []byte) { binary.BigEndian.PutUint64(dst, rand.Uint64()) }
