package body

import (
	"unicode/utf16"
	"unicode/utf8"
)

// longestName bounds, as written, the member names that are worth decoding;
// with every byte as a \u escape it still holds a name of 40 characters.
const longestName = 240

// memberName is the name of the member that member has just passed, decoded.
// It is valid until the next call, and until the next member.
func (l *lexer) memberName(scratch *[longestName]byte) []byte {
	return l.decode(l.name, l.escaped, scratch)
}

// decode returns the text of a string. One that is escaped and very long is
// none that we look for, and comes back as written.
func (l *lexer) decode(at Span, escaped bool, scratch *[longestName]byte) []byte {
	raw := l.b[at.Start:at.End]
	if !escaped || len(raw) > longestName {
		return raw
	}
	text, _ := unescape(scratch[:0], raw)
	return text
}

// unescape appends the text that raw, the inside of a string the lexer has
// passed, stands for. whole is false when half a surrogate pair stands alone:
// Python keeps it, UTF-8 cannot, and U+FFFD is appended.
func unescape(dst, raw []byte) (text []byte, whole bool) {
	whole = true
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			dst = append(dst, raw[i])
			i++
			continue
		}
		if raw[i+1] != 'u' {
			dst = append(dst, short(raw[i+1]))
			i += 2
			continue
		}
		r, n := wide(raw[i:])
		whole = whole && r != utf8.RuneError
		dst = utf8.AppendRune(dst, r)
		i += n
	}
	return dst, whole
}

// short is the byte that a two-character escape stands for.
func short(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// wide decodes the \uXXXX, or the pair of them, at the start of raw, and
// returns how many bytes it took. A written \ufffd counts as half a pair: no
// name that matters holds one.
func wide(raw []byte) (r rune, n int) {
	r = rune(hex4(raw[2:]))
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
		if pair := utf16.DecodeRune(r, rune(hex4(raw[8:]))); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

// hexDigits maps a byte to the value of that hexadecimal digit, or to -1.
var hexDigits = func() (table [256]int16) {
	for c := range table {
		table[c] = -1
	}
	for v := range int16(16) {
		table["0123456789abcdef"[v]] = v
		table["0123456789ABCDEF"[v]] = v
	}
	return table
}()

// hex4 is the value of the four hexadecimal digits at the start of b, negative
// when they are not.
func hex4(b []byte) int {
	_ = b[3]
	d0, d1, d2, d3 := hexDigits[b[0]], hexDigits[b[1]], hexDigits[b[2]], hexDigits[b[3]]
	if d0|d1|d2|d3 < 0 {
		return -1
	}
	return int(d0)<<12 | int(d1)<<8 | int(d2)<<4 | int(d3)
}
