package load

import (
	"bytes"

	"github.com/tidwall/gjson"
)

// maxEvent bounds an event that comes in several parts, in bytes.
const maxEvent = 16 << 20

// kind is what an event means to a measurement.
type kind byte

const (
	token   kind = iota // has choices: text of the answer, its role or its end
	usage               // has usage and no choices
	failure             // an error in the middle of a stream
	done                // [DONE]
	other
)

// splitter cuts a stream of server-sent events into events.
type splitter struct {
	partial []byte // the beginning of an event whose end has not come
}

// feed calls f with each event that p completes. The event is valid during the
// call.
func (s *splitter) feed(p []byte, f func(event []byte)) {
	for len(p) > 0 {
		n := s.end(p)
		if n < 0 {
			if len(s.partial)+len(p) <= maxEvent {
				s.partial = append(s.partial, p...)
			}
			return
		}
		event := p[:n]
		if len(s.partial) > 0 {
			s.partial = append(s.partial, event...)
			event = s.partial
		}
		f(event)
		s.partial = s.partial[:0]
		p = p[n:]
	}
}

// end returns how many bytes of p belong to the event that they complete, or
// -1. An empty line ends an event; what comes before it may lie in partial.
func (s *splitter) end(p []byte) int {
	for i := 0; i < len(p); i++ {
		j := bytes.IndexByte(p[i:], '\n')
		if j < 0 {
			return -1
		}
		i += j
		if s.emptyLine(p[:i]) {
			return i + 1
		}
	}
	return -1
}

// emptyLine reports whether a line feed after p ends a line without content.
func (s *splitter) emptyLine(p []byte) bool {
	last := func(back int) byte {
		if n := len(p) - back; n >= 0 {
			return p[n]
		} else if n += len(s.partial); n >= 0 {
			return s.partial[n]
		}
		return '\n'
	}
	return last(1) == '\n' || last(1) == '\r' && last(2) == '\n'
}

// classify looks at as little of an event as it can.
func classify(event []byte) kind {
	data, ok := bytes.CutPrefix(event, []byte("data:"))
	if !ok {
		if i := bytes.Index(event, []byte("\ndata:")); i >= 0 { // after an event: line
			data, ok = event[i+len("\ndata:"):], true
		}
	}
	switch {
	case !ok:
		return other
	case bytes.Contains(data, []byte(`"choices":[{`)):
		return token
	case bytes.HasPrefix(bytes.TrimLeft(data, " "), []byte("[DONE]")):
		return done
	case bytes.Contains(data, []byte(`"error":`)):
		return failure
	case bytes.Contains(data, []byte(`"usage":{`)):
		return usage
	case gjson.GetBytes(data, "choices.0").Exists(): // spaced otherwise
		return token
	}
	return other
}

// readUsage returns the token counts in an event or a whole body; zero if there
// are none.
func readUsage(b []byte) (prompt, completion int) {
	if i := bytes.IndexByte(b, '{'); i >= 0 {
		b = b[i:]
	}
	u := gjson.GetBytes(b, "usage")
	return int(u.Get("prompt_tokens").Int()), int(u.Get("completion_tokens").Int())
}

// errorCode names the error in a body or an event, by its code or type.
func errorCode(b []byte) string {
	if i := bytes.IndexByte(b, '{'); i >= 0 {
		b = b[i:]
	}
	for _, path := range []string{"error.code", "error.type", "code", "type"} {
		if v := gjson.GetBytes(b, path); v.Exists() && v.String() != "" {
			return v.String()
		}
	}
	return ""
}
