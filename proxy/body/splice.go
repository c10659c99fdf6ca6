package body

import (
	"encoding/json"
	"fmt"
)

// A Member is a member that a model adds to every request. Build it with
// NewMember, once; it can then be used by many Splices at a time.
type Member struct {
	name  string
	value []byte
	added []byte // comma, name, colon, value
}

// NewMember returns the member with the given name and JSON value. It refuses
// a value that is not JSON, and names that Parse has read already, such as
// stream and max_tokens: limits and relay act on what the client wrote there.
func NewMember(name string, value []byte) (Member, error) {
	if lookup([]byte(name))&fixed != 0 {
		return Member{}, fmt.Errorf("%q cannot be set for a request: the gateway acts on the client's own", name)
	}
	if !json.Valid(value) {
		return Member{}, fmt.Errorf("the value of %q is not valid JSON", name)
	}
	quoted, err := json.Marshal(name)
	if err != nil {
		return Member{}, err
	}
	added := append(append([]byte{','}, quoted...), ':')
	return Member{name: name, value: value, added: append(added, value...)}, nil
}

// Splice appends to dst the segments of the body as the replica shall get it.
// model, unless nil, replaces the value of model; it is a JSON string with its
// quotes. Each of the members replaces the values of the client's members of
// that name, where they stand; when there is none it is added at the end, for
// Python believes the last of two. All other bytes stay as they are. No two of
// the members may have the same name.
//
// The segments are views of the body, of model and of the members.
func (s *Scan) Splice(dst [][]byte, model []byte, members []Member) [][]byte {
	from := 0
	for i := range s.members {
		m := &s.members[i]
		if value := s.replacement(m, model, members); value != nil {
			dst = append(dst, s.lex.b[from:m.value.Start], value)
			from = m.value.End
		}
	}
	for i := range members {
		if s.has(members[i].name) {
			continue
		}
		if from < s.end {
			dst = append(dst, s.lex.b[from:s.end])
			from = s.end
		}
		dst = append(dst, members[i].added)
	}
	return append(dst, s.lex.b[from:])
}

// Len is the number of bytes in all segments together.
func Len(segments [][]byte) int {
	n := 0
	for _, b := range segments {
		n += len(b)
	}
	return n
}

// replacement is the new value of m, or nil when it stays.
func (s *Scan) replacement(m *member, model []byte, members []Member) []byte {
	if m.value == s.ModelAt {
		return model
	}
	for i := range members {
		if s.named(m, members[i].name) {
			return members[i].value
		}
	}
	return nil
}

func (s *Scan) has(name string) bool {
	for i := range s.members {
		if s.named(&s.members[i], name) {
			return true
		}
	}
	return false
}

// named says whether m has that name. Each byte of a name takes at most six in
// the JSON, so that longer ones need not be decoded.
func (s *Scan) named(m *member, name string) bool {
	raw := s.lex.b[m.name.Start:m.name.End]
	if !m.escaped {
		return string(raw) == name
	}
	if len(raw) > 6*len(name) {
		return false
	}
	text, _ := unescape(s.name[:0], raw)
	return string(text) == name
}
