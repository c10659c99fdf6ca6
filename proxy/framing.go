package proxy

import (
	"bufio"
	"errors"
	"io"
)

// maxFraming bounds what a replica may send around one chunk, in bytes: size
// line with extensions, or all trailers. Servers send about ten.
const maxFraming = 4 << 10

var errFraming = errors.New("broken chunk framing")

// framedBody takes the framing off an answer's body (RFC 9112, section 6).
//
// It is strict where fasthttp's client is not: an answer that ends before its
// framing says so is io.ErrUnexpectedEOF at every cut position, and the first
// error is returned for ever after. So a truncated answer never looks complete.
type framedBody struct {
	br     *bufio.Reader
	state  frameState
	left   int64 // bytes left in the current chunk, or in a body of known length
	extra  int   // framing bytes read since the last payload
	digit  int   // hex digits read of the current chunk's size
	exts   int   // bytes of all chunk extensions
	strict bool  // take what RFC 9112 has, and nothing that others take besides
	stray  bool  // something came behind the body, and was not left in br
	err    error
}

type frameState byte

const (
	plainData   frameState = iota // a body of known length
	sizeFirst                     // the first digit of a chunk size
	sizeDigits                    // further digits
	sizeSpace                     // blanks behind a chunk size
	sizeExt                       // chunk extensions, ignored
	sizeLF                        // LF behind a chunk size
	chunkData                     // a chunk's payload
	chunkCR                       // CR behind the payload
	chunkLF                       // LF behind that
	trailerLine                   // the first byte of a trailer line
	trailerName                   // the rest of its name
	trailerText                   // its value
	trailerLF                     // LF behind one
	lastLF                        // LF of the empty line that ends the body
)

// reset prepares b for a chunked body read from br.
func (b *framedBody) resetChunked(br *bufio.Reader) {
	*b = framedBody{br: br, state: sizeFirst}
}

// resetLength prepares b for a body of length bytes read from br.
func (b *framedBody) resetLength(br *bufio.Reader, length int64) {
	*b = framedBody{br: br, state: plainData, left: length}
	if length == 0 {
		b.err = io.EOF
	}
}

// next returns the payload that one read brought in; it waits only while it
// has nothing to give. The slice is valid until the next call. The end of a
// complete body is io.EOF; payload and error never come together.
func (b *framedBody) next() ([]byte, error) {
	for b.err == nil {
		if _, err := b.br.Peek(1); err != nil {
			b.fail(err)
			break
		}
		if payload := b.take(); len(payload) > 0 {
			return payload, nil
		}
	}
	return nil, b.err
}

// clean reports whether the connection can carry another exchange: the body
// was read to its end and nothing came behind it.
func (b *framedBody) clean() bool {
	return b.err == io.EOF && !b.stray && (b.br == nil || b.br.Buffered() == 0)
}

func (b *framedBody) fail(err error) {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	b.err = err
}

// take consumes what is buffered and returns its payload as one slice of the
// reader's buffer.
func (b *framedBody) take() []byte {
	view, _ := b.br.Peek(b.br.Buffered())
	payload, used := b.unframe(view)
	_, _ = b.br.Discard(used)
	return payload
}

// release gives up the reader: from here on the body comes by feed.
func (b *framedBody) release() {
	b.stray = b.br.Buffered() > 0
	b.br = nil
}

// feed takes the framing off what a read brought in and returns the payload as
// one slice of view. The read is the caller's own, after release.
func (b *framedBody) feed(view []byte) []byte {
	payload, used := b.unframe(view)
	b.stray = b.stray || used < len(view)
	return payload
}

// unframe returns the payload in view as one slice of it. The payloads of
// several chunks are moved together there; a single one, the usual case, is not
// moved. All of view is used, unless the body ends before it.
func (b *framedBody) unframe(view []byte) (payload []byte, used int) {
	for used < len(view) && b.err == nil {
		if b.state != chunkData && b.state != plainData {
			b.step(view[used])
			used++
			continue
		}
		data := view[used : used+int(min(b.left, int64(len(view)-used)))]
		if payload == nil {
			payload = data
		} else {
			payload = append(payload, data...) // moves left: data lies behind payload in view
		}
		used += len(data)
		b.spend(len(data))
	}
	return payload, used
}

// pass reads framing and payload in p, which are not wanted, and returns how
// many bytes of it belong to the body: all, unless the body ends there.
func (b *framedBody) pass(p []byte) (used int) {
	for used < len(p) && b.err == nil {
		if b.state != chunkData {
			b.step(p[used])
			used++
			continue
		}
		n := int(min(b.left, int64(len(p)-used)))
		used += n
		b.spend(n)
	}
	return used
}

// spend counts n payload bytes off the current chunk or body.
func (b *framedBody) spend(n int) {
	b.left -= int64(n)
	b.extra = 0
	if b.left > 0 {
		return
	}
	if b.state == plainData {
		b.err = io.EOF
		return
	}
	b.state = chunkCR
}

// step reads one byte of framing.
func (b *framedBody) step(c byte) {
	if b.extra++; b.extra > maxFraming {
		b.err = errFraming
		return
	}
	switch b.state {
	case sizeFirst, sizeDigits, sizeSpace:
		b.size(c)
	case sizeExt:
		if b.exts++; b.exts > maxFraming {
			b.err = errFraming
			return
		}
		b.line(c, sizeLF)
	case sizeLF:
		b.expect(c, '\n', chunkData)
		if b.left == 0 {
			b.state = trailerLine
		}
	case chunkCR:
		b.expect(c, '\r', chunkLF)
	case chunkLF:
		b.expect(c, '\n', sizeFirst)
	default:
		b.trailer(c)
	}
}

// size reads one byte of a chunk-size line, up to the extensions. Fifteen
// digits are the most that cannot overflow; who sends more, zeros or not, means
// to be read differently by different readers.
func (b *framedBody) size(c byte) {
	digit, ok := hexDigit(c)
	switch {
	case ok && b.state == sizeFirst:
		b.left, b.digit = digit, 1
		b.state = sizeDigits
	case ok && b.state == sizeDigits && b.digit < 15:
		b.left = b.left<<4 | digit
		b.digit++
	case ok || b.state == sizeFirst:
		b.err = errFraming
	case c == '\r':
		b.state = sizeLF
	case (c == ' ' || c == '\t') && !b.strict:
		b.state = sizeSpace
	case c == ';' && b.state == sizeDigits:
		b.state = sizeExt
	default:
		b.err = errFraming
	}
}

// trailer reads one byte of the trailer section; its fields are dropped.
func (b *framedBody) trailer(c byte) {
	switch b.state {
	case trailerLine:
		if c == '\r' {
			b.state = lastLF
			return
		}
		b.state = trailerName
		b.name(c, false)
	case trailerName:
		b.name(c, true)
	case trailerText:
		b.line(c, trailerLF)
	case trailerLF:
		b.expect(c, '\n', trailerLine)
	case lastLF:
		if b.expect(c, '\n', lastLF); b.err == nil {
			b.err = io.EOF
		}
	}
}

// name passes over a trailer's name, up to its colon.
func (b *framedBody) name(c byte, begun bool) {
	switch {
	case c == ':' && begun:
		b.state = trailerText
	case !tokenBytes[c]:
		b.err = errFraming
	}
}

// line passes over text that is not looked at, up to its CR.
func (b *framedBody) line(c byte, next frameState) {
	switch {
	case c == '\r':
		b.state = next
	case !valueBytes[c]:
		b.err = errFraming
	}
}

func (b *framedBody) expect(c, want byte, next frameState) {
	if c != want {
		b.err = errFraming
		return
	}
	b.state = next
}

func hexDigit(c byte) (int64, bool) {
	switch {
	case '0' <= c && c <= '9':
		return int64(c - '0'), true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int64(c|0x20-'a') + 10, true
	}
	return 0, false
}
