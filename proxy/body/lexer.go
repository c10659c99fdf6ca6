package body

import (
	"encoding/binary"
	"math/bits"
)

// maxDepth bounds how deep objects and arrays may be nested. Python's parser
// gives up near 1000 levels; nothing sensible comes close to either.
const maxDepth = 256

// Span is a range of bytes in the body: body[Start:End]. The zero Span stands
// for a member that is absent or null.
type Span struct{ Start, End int }

// Len is the number of bytes in the range.
func (s Span) Len() int { return s.End - s.Start }

// lexer reads JSON tokens from b, strictly by RFC 8259 (UTF-8 is not looked
// at). The first fault sticks: from then on member and element return false
// and every loop ends, so that callers check fault once, at the end.
type lexer struct {
	b     []byte
	i     int // next byte to read
	depth int
	fault *Fault

	name    Span // of the last member, without its quotes
	escaped bool // that name holds a backslash
}

// member moves to the value of the next member of an object: first called
// with sep '{' at the opening brace, then with ',' behind each value. It
// returns false behind the closing brace, or on a fault.
func (l *lexer) member(sep byte) bool {
	if !l.next(sep, '}') {
		return false
	}
	if l.peek() != '"' {
		return l.broken("expected a member name in double quotes")
	}
	l.name, l.escaped = l.str()
	l.space()
	if l.peek() != ':' {
		return l.broken("expected a colon after the member name")
	}
	l.i++
	l.space()
	return l.fault == nil
}

// element is member for arrays: sep is '[' first, then ','.
func (l *lexer) element(sep byte) bool { return l.next(sep, ']') }

// next passes the opening bracket or the comma, and the closing bracket at
// the end. A comma directly before the closing bracket is found by the caller,
// which then sees a bracket where a name or a value has to be.
func (l *lexer) next(sep, closing byte) bool {
	if l.fault != nil {
		return false
	}
	opening := sep != ','
	if opening {
		if l.depth++; l.depth > maxDepth {
			return l.broken("nested too deep")
		}
		l.i++
	}
	l.space()
	c := l.peek()
	if c == closing {
		l.i++
		l.depth--
		return false
	}
	if !opening {
		if c != ',' {
			return l.broken("expected a comma or the end of the object or array")
		}
		l.i++
		l.space()
	}
	return true
}

// skip passes one value of any kind and returns where it stands.
func (l *lexer) skip() Span {
	from := l.i
	switch l.peek() {
	case '"':
		l.str()
	case '{':
		for sep := byte('{'); l.member(sep); sep = ',' {
			l.skip()
		}
	case '[':
		for sep := byte('['); l.element(sep); sep = ',' {
			l.skip()
		}
	case 't':
		l.literal("true")
	case 'f':
		l.literal("false")
	case 'n':
		l.literal("null")
	default:
		l.number()
	}
	return Span{from, l.i}
}

// null passes a null if one comes next.
func (l *lexer) null() bool {
	return l.peek() == 'n' && l.literal("null")
}

func (l *lexer) literal(word string) bool {
	end := l.i + len(word)
	if end > len(l.b) || string(l.b[l.i:end]) != word {
		return l.broken("expected a value (true, false and null are in lower case, NaN and Infinity are not JSON)")
	}
	l.i = end
	return true
}

// number passes -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?.
func (l *lexer) number() Span {
	from := l.i
	if l.peek() == '-' {
		l.i++
	}
	switch c := l.peek(); {
	case c == '0':
		l.i++
	case c >= '1' && c <= '9':
		l.digits()
	default:
		l.broken("expected a value")
	}
	if l.peek() == '.' {
		l.i++
		l.digits()
	}
	if l.peek()|0x20 == 'e' {
		l.i++
		if c := l.peek(); c == '+' || c == '-' {
			l.i++
		}
		l.digits()
	}
	return Span{from, l.i}
}

func (l *lexer) digits() {
	i := l.i
	for i < len(l.b) && l.b[i]-'0' < 10 {
		i++
	}
	if i == l.i {
		l.broken("expected a digit")
	}
	l.i = i
}

// str passes a string, from its opening quote on, and returns what is between
// the quotes, as written, and whether that holds a backslash.
func (l *lexer) str() (text Span, escaped bool) {
	from := l.i + 1
	l.i = plainEnd(l.b, from)
	for l.peek() == '\\' {
		escaped = true
		if !l.escape() {
			return Span{}, false
		}
		if l.peek() != '\\' { // escapes often come in runs
			l.i = plainEnd(l.b, l.i)
		}
	}
	if l.peek() != '"' {
		l.broken("a string is not closed, or holds a raw control character (write it as an escape)")
		return Span{}, false
	}
	l.i++
	return Span{from, l.i - 1}, escaped
}

// escape passes one escape sequence. Halves of surrogate pairs may stand
// alone, as Python allows.
func (l *lexer) escape() bool {
	if l.i+1 >= len(l.b) {
		return l.broken("a string is not closed")
	}
	switch l.b[l.i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		l.i += 2
		return true
	case 'u':
		if l.i+6 <= len(l.b) && hex4(l.b[l.i+2:]) >= 0 {
			l.i += 6
			return true
		}
	}
	return l.broken("unknown escape in a string")
}

func (l *lexer) space() {
	for l.i < len(l.b) {
		switch l.b[l.i] {
		case ' ', '\n', '\r', '\t':
			l.i++
		default:
			return
		}
	}
}

// peek is the next byte, or 0 at the end; 0 is never a token.
func (l *lexer) peek() byte {
	if l.i < len(l.b) {
		return l.b[l.i]
	}
	return 0
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks, by the high bit, the bytes of w that a string cannot simply
// run over: the quote, the backslash and what is below a space. The lowest
// mark is exact; marks above it may be false, for the subtractions borrow.
//
// Flipping bit 1 moves the quote (0x22) next to the control characters
// (0x00-0x1f), so that one comparison with 0x21 finds both.
func special(w uint64) uint64 {
	s := w ^ '\\'*ones
	return (((w ^ 0x02*ones) - 0x21*ones) | (s - ones)) &^ w & highs
}

// plainEnd returns the index of the first special byte of b from i on, or
// len(b). It reads 16 bytes at a time: long strings are nearly all of a body.
func plainEnd(b []byte, i int) int {
	for ; len(b)-i >= 16; i += 16 {
		two := b[i : i+16]
		if m := special(binary.LittleEndian.Uint64(two)); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		if m := special(binary.LittleEndian.Uint64(two[8:])); m != 0 {
			return i + 8 + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < ' ' || c == '"' || c == '\\' {
			return i
		}
	}
	return i
}
