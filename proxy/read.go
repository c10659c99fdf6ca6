package proxy

import (
	"errors"
	"io"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"mete/proxy/body"
)

// precheckSize is the body size in bytes from which a key is checked before the
// body is read: nobody shall upload 32 MiB to learn of a 401.
const precheckSize = 64 << 10

// checkContent refuses a body that is too large or that no replica could read.
func (x *exchange) checkContent() error {
	if int64(x.ctx.Request.Header.ContentLength()) > int64(x.table.config.Bounds.Body) {
		return x.bodyTooLarge()
	}
	return x.head.checkContent()
}

// precheck refuses early what a read-only look at key and limits can refuse.
func (x *exchange) precheck() error {
	length := x.ctx.Request.Header.ContentLength()
	if length >= 0 && length < precheckSize {
		return nil
	}
	return x.orGone(x.g.limiter.Check(x.life, x.head.key))
}

func (x *exchange) bodyTooLarge() error {
	return callerRefusal(413, "body_too_large", "", "The body may have at most "+x.table.config.Bounds.Body.String()+".")
}

// readBody reads the body into x.body, within its bounds.
func (x *exchange) readBody() error {
	return x.bodyError(x.readAtMost(int(x.table.config.Bounds.Body)))
}

func (x *exchange) readAtMost(limit int) error {
	stream := x.ctx.RequestBodyStream()
	if stream == nil {
		return nil // the scanner says that there is nothing
	}
	length := x.ctx.Request.Header.ContentLength()
	if length < 0 || length > firstRead {
		_ = x.ctx.Conn().SetReadDeadline(time.Now().Add(x.table.config.Timeouts.Body))
	}
	began := time.Now()
	defer x.stages.read.ended(x, began)
	if gone := x.setReading(true); gone != nil {
		return gone
	}
	err := x.body.fill(stream, length, limit, &x.g.bodies)
	if err == nil && length < 0 && !x.ctx.Conn().(*gate).message.over() {
		err = io.ErrUnexpectedEOF // fasthttp takes an end behind the last chunk's size for the body's
	}
	if gone := x.setReading(false); gone != nil {
		return gone
	}
	return err
}

// bodyError says what a failure to read the body means for the client.
func (x *exchange) bodyError(err error) error {
	switch {
	case err == nil, errors.Is(err, errDraining):
		return err
	case errors.Is(err, errTooLarge):
		return x.bodyTooLarge()
	case errors.Is(err, errBudget):
		return refuseOverload
	case isTimeout(err):
		return refuseBodyTimeout
	}
	return refuseHalfBody
}

// unread reports whether bytes of the request's body may still be on the
// connection, which then cannot be used again.
func (x *exchange) unread() bool {
	if x.body.whole {
		return false
	}
	return x.ctx.Request.Header.ContentLength() != 0 && x.ctx.RequestBodyStream() != nil
}

// findModel resolves the model, and checks what only it can tell.
func (x *exchange) findModel() error {
	m := x.table.find(x.scan.Model)
	if m == nil {
		return modelNotFound(x.scan.Model)
	}
	x.model = m
	if !m.pool.serves(x.endpoint.name) {
		return callerRefusal(404, "endpoint_not_served", "model", "The model does not serve this endpoint.")
	}
	x.prompt, x.stream, x.most = x.estimatePrompt(), x.scan.Stream, x.scan.MaxTokens
	return x.scan.FitsWindow(int64(m.ContextWindow))
}

// releaseBody gives the request's body back once no replica will be sent it
// again: a stream may go on for minutes, and there is a bound on all bodies.
func (x *exchange) releaseBody() {
	if x.scan != nil {
		x.scan.Reset()
		scans.Put(x.scan)
		x.scan = nil
	}
	x.body.release(&x.g.bodies)
	x.body.whole = true
}

// scans are not kept with the exchange, which may be a stream that goes on for
// minutes.
var scans = sync.Pool{New: func() any { return new(body.Scan) }}

func modelNotFound(name []byte) error {
	return callerRefusal(404, "model_not_found", "model",
		"The model `"+printable(name)+"` does not exist. The list is at /v1/models.")
}

// printable makes a name from a client fit to be quoted in a message.
func printable(name []byte) string {
	const most = 128
	if len(name) > most {
		name = name[:most]
	}
	if !utf8.Valid(name) {
		return "?"
	}
	return string(name)
}

var (
	errTooLarge = errors.New("body exceeds its bound")
	errBudget   = errors.New("bodies in flight exceed their bound")
)

// bodyBudget bounds the bytes that all request bodies hold together.
type bodyBudget struct {
	limit int64
	held  atomic.Int64
}

// take adds n bytes unless that would exceed the limit.
func (b *bodyBudget) take(n int64) bool {
	for {
		held := b.held.Load()
		if held+n > b.limit {
			return false
		}
		if b.held.CompareAndSwap(held, held+n) {
			return true
		}
	}
}

// buffer is one request body. It grows with what arrives, never with what was
// announced: a client that declares a megabyte and sends nothing holds 8 KiB.
type buffer struct {
	b     []byte
	box   *[]byte // what b came in, and goes back in
	whole bool    // the stream was read to its end
}

const (
	firstRead   = 8 << 10 // bytes; fasthttp has read as much before the handler runs
	growFactor  = 4
	largestKept = 1 << 20 // bytes; larger buffers are left to the garbage collector
)

// fill reads r to its end: length bytes, or an unknown number if length is
// negative, and at most limit.
func (f *buffer) fill(r io.Reader, length, limit int, budget *bodyBudget) error {
	announced := length
	if length < 0 || length > limit {
		length = limit // what is longer is read so far
	}
	if !f.grow(min(length+1, firstRead), budget) {
		return errBudget
	}
	for {
		n, err := r.Read(f.b[len(f.b):cap(f.b)])
		f.b = f.b[:len(f.b)+n]
		switch {
		case len(f.b) > limit:
			return errTooLarge
		case err == io.EOF && len(f.b) < announced:
			return io.ErrUnexpectedEOF // fasthttp ends a body that was cut like any other
		case err == io.EOF:
			f.whole = true
			return nil
		case err != nil:
			return err
		case len(f.b) == cap(f.b) && !f.grow(min(length+1, growFactor*cap(f.b)), budget):
			return errBudget
		}
	}
}

// grow makes room for at least size bytes in all.
func (f *buffer) grow(size int, budget *bodyBudget) bool {
	box := acquireBytes(max(size, len(f.b)+1))
	if !budget.take(int64(cap(*box) - cap(f.b))) {
		releaseBytes(box)
		return false
	}
	grown := append((*box)[:0], f.b...)
	f.giveBack()
	f.b, f.box = grown, box
	return true
}

// release gives the memory back.
func (f *buffer) release(budget *bodyBudget) {
	budget.held.Add(-int64(cap(f.b)))
	f.giveBack()
	*f = buffer{}
}

func (f *buffer) giveBack() {
	if f.box != nil {
		releaseBytes(f.box)
	}
}

// byteSlices are pools of slices by the power of two of their capacity, from
// firstRead to largestKept.
var byteSlices [largestClass + 1]sync.Pool

const (
	smallestClass = 13 // 8 KiB
	largestClass  = 20 // 1 MiB
)

// acquireBytes returns a slice with room for n bytes, in the box in which it
// must be released.
func acquireBytes(n int) *[]byte {
	class := max(bits.Len(uint(n-1)), smallestClass)
	if class <= largestClass {
		if box, ok := byteSlices[class].Get().(*[]byte); ok {
			return box
		}
		n = 1 << class
	}
	b := make([]byte, n)
	return &b
}

func releaseBytes(box *[]byte) {
	class := bits.Len(uint(cap(*box))) - 1
	if cap(*box) <= largestKept && class >= smallestClass {
		byteSlices[class].Put(box)
	}
}
