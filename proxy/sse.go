package proxy

import (
	"bytes"

	"github.com/tidwall/gjson"
)

// maxEventLine bounds how much of an SSE line that came in pieces is kept for
// reading, in bytes. A longer line is relayed like any other, but not read.
const maxEventLine = 64 << 10

// sseReader follows a stream of server-sent events as it passes by. It keeps
// no event back and changes no byte: it counts, and notes what settlement and
// the circuit breaker must know.
//
// Line ends may be LF, CRLF or CR; of a CRLF cut in two, either half may come
// first in a later read.
type sseReader struct {
	wantUsage bool // the client asked for usage: look for it

	events      int64 // events with data, [DONE] included
	deltas      int64 // events that carry text for the client
	textBytes   int64 // bytes of that text, as JSON writes it
	usage       usage
	done        bool   // data: [DONE] was seen
	aborted     bool   // a finish_reason "abort" was seen
	failure     []byte // the first error object, {"error":…} with its braces
	failedFirst bool   // no other data came before it

	line     []byte // the beginning of a line whose end has not come yet
	overlong bool   // that line outgrew maxEventLine
	midLine  bool   // the last byte was not a line end
	hasData  bool   // the event at hand has data lines
	boundary bool   // the last byte ended an event: something may be added here
	lastCR   bool   // the last byte was CR: an LF next belongs to it
}

// usage is what vLLM counts, in tokens.
type usage struct {
	prompt, completion int64
	known              bool
}

// reset forgets one stream; the line buffer is kept for the next.
func (s *sseReader) reset(wantUsage bool) {
	*s = sseReader{wantUsage: wantUsage, line: s.line[:0]}
	if cap(s.line) > 4<<10 {
		s.line = nil
	}
}

// feed reads the next bytes of the stream.
func (s *sseReader) feed(p []byte) {
	if s.lastCR && len(p) > 0 {
		if s.lastCR = false; p[0] == '\n' {
			p = p[1:]
		}
	}
	for len(p) > 0 {
		end := lineEnd(p)
		if end < 0 {
			s.keep(p)
			return
		}
		s.endLine(p[:end])
		next := end + 1
		if p[end] == '\r' {
			if next == len(p) {
				s.lastCR = true
			} else if p[next] == '\n' {
				next++
			}
		}
		p = p[next:]
	}
}

// lineEnd returns the index of the first CR or LF in p, -1 if there is none.
func lineEnd(p []byte) int {
	end := bytes.IndexByte(p, '\n')
	if end < 0 {
		return bytes.IndexByte(p, '\r')
	}
	if cr := bytes.IndexByte(p[:end], '\r'); cr >= 0 {
		return cr
	}
	return end
}

// keep stores the beginning of a line that is not there whole.
func (s *sseReader) keep(p []byte) {
	s.midLine, s.boundary = true, false
	if s.overlong || len(s.line)+len(p) > maxEventLine {
		s.overlong, s.line = true, s.line[:0]
		return
	}
	s.line = append(s.line, p...)
}

// endLine reads one line; tail is what came of it since the last keep.
func (s *sseReader) endLine(tail []byte) {
	line := tail
	if len(s.line) > 0 {
		s.line = append(s.line, tail...)
		line = s.line
	}
	empty := !s.midLine && len(tail) == 0
	switch {
	case empty:
		if s.hasData {
			s.events++
		}
		s.hasData = false
	case s.overlong, len(line) > maxEventLine:
		s.hasData = true
		s.deltas++
	default:
		s.field(line)
	}
	s.boundary = empty
	s.line, s.midLine, s.overlong = s.line[:0], false, false
}

var (
	dataField  = []byte("data:")
	doneMark   = []byte("[DONE]")
	errorStart = []byte(`{"error"`)
	abortMark  = []byte(`"finish_reason":"abort"`)
	usageMark  = []byte(`"usage":{`)
)

// field reads one line that is not empty.
func (s *sseReader) field(line []byte) {
	data, ok := bytes.CutPrefix(line, dataField)
	if !ok {
		return
	}
	first := s.events == 0 && !s.hasData
	s.hasData = true
	data = bytes.TrimLeft(data, " ")
	switch {
	case bytes.Equal(data, doneMark):
		s.done = true
	case isErrorObject(data):
		if s.failure == nil {
			s.failure, s.failedFirst = bytes.Clone(data), first
		}
	default:
		s.chunk(data)
	}
}

// isErrorObject tells an error event from a chunk: its "error" is an object or
// a string (chunks of some endpoints carry "error":null).
func isErrorObject(data []byte) bool {
	if !bytes.HasPrefix(data, errorStart) {
		return false
	}
	e := gjson.GetBytes(data, "error")
	return e.IsObject() || e.Type == gjson.String
}

// chunk reads one chat or completion chunk.
func (s *sseReader) chunk(data []byte) {
	if n := textLength(data); n > 0 {
		s.deltas++
		s.textBytes += int64(n)
	}
	if bytes.Contains(data, abortMark) {
		s.aborted = true
	}
	if s.wantUsage {
		s.usage.find(data)
	}
}

// find reads the last usage object in b, wherever it is nested: the responses
// and messages endpoints have theirs inside, and tell of it in two events.
func (u *usage) find(b []byte) {
	if i := bytes.LastIndex(b, usageMark); i >= 0 {
		u.read(gjson.ParseBytes(b[i+len(usageMark)-1:]))
	}
}

// read takes the counts of a usage object, in either of the two spellings.
func (u *usage) read(v gjson.Result) {
	u.take(&u.prompt, v.Get("prompt_tokens"), v.Get("input_tokens"))
	u.take(&u.completion, v.Get("completion_tokens"), v.Get("output_tokens"))
}

func (u *usage) take(count *int64, spellings ...gjson.Result) {
	for _, v := range spellings {
		if v.Type == gjson.Number {
			*count, u.known = v.Int(), true
		}
	}
}

// textMembers name the strings in which a chunk carries what a model has
// generated, the most usual first.
var textMembers = [...][]byte{
	[]byte(`"content":"`),
	[]byte(`"text":"`),
	[]byte(`"reasoning_content":"`),
	[]byte(`"reasoning":"`),
	[]byte(`"arguments":"`),
	[]byte(`"delta":"`),
}

// textLength returns the length in bytes of the first text in a chunk, 0 if it
// carries none. It is an estimate's raw material, so escapes are not decoded.
func textLength(data []byte) int {
	for _, member := range textMembers {
		if _, rest, ok := bytes.Cut(data, member); ok {
			if n := stringLength(rest); n > 0 {
				return n
			}
		}
	}
	return 0
}

// stringLength returns the length of the JSON string that starts at b, without
// its quotes.
func stringLength(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(b)
}

// judged reports whether the first event is known to be an error or not: it is
// there whole, or it has begun otherwise than an error does.
func (s *sseReader) judged() bool {
	if s.hasData || s.events > 0 || s.overlong {
		return true
	}
	data, ok := bytes.CutPrefix(s.line, dataField)
	if !ok {
		return false
	}
	data = bytes.TrimLeft(data, " ")
	return !bytes.HasPrefix(data, errorStart) && !bytes.HasPrefix(errorStart, data)
}
