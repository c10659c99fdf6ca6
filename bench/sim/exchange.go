package sim

import (
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// exchange writes the answer to one request. Every byte leaves through write,
// so that a cut can be placed at any of them.
type exchange struct {
	r     *Replica
	cfg   *Config
	req   *Request
	conn  net.Conn // nil while rendering
	fault Fault

	buf    []byte // one event, with room for its chunk size before it
	out    []byte // the body, while rendering
	head   []byte
	events int   // events written
	wire   int64 // bytes of the response written
	body   int64 // payload bytes written

	id       string
	created  int64
	chunked  bool
	headSent bool
	keep     bool // the connection can take another request
	complete bool // the last byte that a client waits for has been written
	faulted  bool // an injected error or end has taken the place of the answer
	failed   error
}

var (
	errCut  = errors.New("cut by a fault")
	errGone = errors.New("client has gone")
)

const hexRoom = 18 // 16 hexadecimal digits and CRLF

// reset prepares x for the next request on its connection.
func (x *exchange) reset(req *Request) {
	*x = exchange{r: x.r, cfg: x.cfg, conn: x.conn, req: req, buf: x.buf[:0], head: x.head[:0]}
	x.keep = req.minor == 1 && !strings.EqualFold(req.Header("connection"), "close")
	x.id = req.Header("x-request-id")
	if x.created = x.cfg.Created; x.created == 0 {
		x.created = time.Now().Unix()
	}
}

// start sends status line and header fields. length is the body's, or -1 for
// a chunked one.
func (x *exchange) start(status int, contentType string, length int) error {
	x.headSent, x.chunked = true, length < 0
	if x.conn == nil {
		return nil
	}
	h := append(x.head[:0], "HTTP/1.1 "...)
	h = append(append(strconv.AppendInt(h, int64(status), 10), ' '), http.StatusText(status)...)
	h = append(h, "\r\ndate: "...)
	h = time.Now().UTC().AppendFormat(h, http.TimeFormat)
	h = append(h, "\r\nserver: uvicorn\r\n"...)
	if length >= 0 {
		h = append(strconv.AppendInt(append(h, "content-length: "...), int64(length), 10), "\r\n"...)
	}
	if contentType != "" {
		h = append(append(append(h, "content-type: "...), contentType...), "\r\n"...)
	}
	h = x.appendLoad(h)
	if s := x.fault.RetryAfter; s != "" {
		h = append(append(append(h, "retry-after: "...), s...), "\r\n"...)
	}
	if length < 0 && x.req.minor == 1 {
		h = append(h, "transfer-encoding: chunked\r\n"...)
	} else if length < 0 {
		x.chunked, x.keep = false, false // HTTP/1.0 reads to the end of the connection
	}
	if !x.keep {
		h = append(h, "connection: close\r\n"...)
	}
	x.head = append(h, "\r\n"...)
	return x.write(x.head, 0, 0)
}

// begin returns the buffer to which the next event is appended.
func (x *exchange) begin() []byte {
	if cap(x.buf) < hexRoom {
		x.buf = make([]byte, hexRoom, 1024)
	}
	return x.buf[:hexRoom]
}

// event writes what was appended to begin's buffer, framed, in one write.
func (x *exchange) event(b []byte) error {
	x.buf = b
	if x.left() {
		return errGone
	}
	if x.fault.Kind != NoFault {
		if err := x.beforeEvent(); err != nil {
			return err
		}
	}
	x.events++
	payload := len(b) - hexRoom
	if !x.chunked || x.conn == nil {
		return x.write(b[hexRoom:], 0, payload)
	}
	at := hexRoom - 2
	b[at], b[at+1] = '\r', '\n'
	for n := payload; ; n >>= 4 {
		at--
		b[at] = "0123456789abcdef"[n&15]
		if n < 16 {
			break
		}
	}
	x.buf = append(b, '\r', '\n')
	return x.write(x.buf[at:], hexRoom-at, payload)
}

func (x *exchange) left() bool {
	select {
	case <-x.req.gone: // nil, so never, while rendering
		return true
	default:
		return false
	}
}

// end sends the terminating chunk.
func (x *exchange) end() error {
	if !x.chunked || x.conn == nil {
		return nil
	}
	return x.write([]byte("0\r\n\r\n"), 5, 0)
}

// reply sends a whole answer with a content-length: header and body in one
// write each, as uvicorn does.
func (x *exchange) reply(status int, contentType string, body []byte) error {
	if len(body) == 0 {
		contentType = ""
	}
	if err := x.start(status, contentType, len(body)); err != nil {
		return err
	}
	if x.fault.Kind != NoFault {
		if err := x.beforeBody(); err != nil {
			return err
		}
	}
	if len(body) == 0 || x.req.Method == http.MethodHead {
		return nil
	}
	return x.write(body, 0, len(body))
}

func (x *exchange) fail(e *apiError) error {
	shape := x.cfg.ErrorShape
	if e.status == http.StatusUnauthorized {
		shape = ShapeBare
	}
	return x.failShaped(e, shape)
}

func (x *exchange) failShaped(e *apiError, shape Shape) error {
	if x.conn == nil {
		return e
	}
	return x.reply(e.status, shape.contentType(), e.appendBody(nil, shape))
}

// write sends p, whose payload bytes begin at off. It is where cuts happen.
func (x *exchange) write(p []byte, off, payload int) error {
	if x.failed != nil {
		return x.failed
	}
	if x.conn == nil {
		x.out = append(x.out, p[off:off+payload]...)
		return nil
	}
	if x.fault.Kind == Cut {
		if n, now := x.cutWithin(p, off, payload); now {
			return x.cut(p[:n])
		}
	}
	n, err := x.conn.Write(p)
	x.wire += int64(n)
	x.body += int64(payload)
	if err != nil {
		x.failed = errors.Join(errGone, err)
	}
	return x.failed
}
