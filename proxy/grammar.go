package proxy

import "bytes"

// byteSet says of each byte whether it is in the set.
type byteSet [256]bool

const alphanumeric = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

var (
	// tokenBytes make methods and field names (RFC 9110, section 5.6.2).
	tokenBytes = setOf("!#$%&'*+-.^_`|~" + alphanumeric)
	// hostBytes make a host and a port (RFC 3986, section 3.2), but for the comma,
	// by which two fields are joined.
	hostBytes = setOf("-._~%!$&'()*+;=:[]" + alphanumeric)
	// targetBytes make a request's target: what is visible, but for what begins a
	// fragment, which is no part of one.
	targetBytes = func() byteSet {
		s := rangeOf('!', '~')
		s['#'] = false
		return s
	}()
	// valueBytes make a field's value (RFC 9110, section 5.5).
	valueBytes = func() byteSet {
		s := rangeOf(' ', 0xff)
		s['\t'], s[0x7f] = true, false
		return s
	}()
)

func setOf(members string) (s byteSet) {
	for _, c := range []byte(members) {
		s[c] = true
	}
	return s
}

func rangeOf(first, last int) (s byteSet) {
	for c := first; c <= last; c++ {
		s[c] = true
	}
	return s
}

// consistsOf reports whether b has bytes, all of them in the set.
func consistsOf(b []byte, set *byteSet) bool {
	for _, c := range b {
		if !set[c] {
			return false
		}
	}
	return len(b) > 0
}

// trimBlanks takes the optional blanks off a field's value.
func trimBlanks(value []byte) []byte { return bytes.Trim(value, " \t") }
