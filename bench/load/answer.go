package load

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// answer reads one HTTP/1.1 answer from a connection.
type answer struct {
	c       *connection
	status  int
	chunked bool
	toEnd   bool  // the end of the connection ends the body (HTTP/1.0)
	left    int64 // of the body, or of the chunk
	opened  bool  // a chunk has begun, its CRLF is still to come
	ended   bool
	close   bool // the server closes the connection after this answer
	stream  bool // server-sent events
}

// readHead reads the status line and the header fields of the final answer.
func (a *answer) readHead() error {
	for {
		line, err := a.c.line()
		if err != nil {
			return err
		}
		if err := a.readStatus(line); err != nil {
			return err
		}
		if err := a.readFields(); err != nil {
			return err
		}
		if a.status >= 200 {
			break
		}
	}
	if a.status == 204 || a.status == 304 {
		a.left, a.chunked, a.toEnd = 0, false, false
	}
	a.ended = !a.chunked && !a.toEnd && a.left == 0
	return nil
}

// readStatus reads a line like "HTTP/1.1 200 OK".
func (a *answer) readStatus(line []byte) error {
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' {
		return fmt.Errorf("status line %.40q: %w", line, errHead)
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil || status < 100 {
		return fmt.Errorf("status line %.40q: %w", line, errHead)
	}
	*a = answer{c: a.c, status: status, toEnd: true, close: line[7] == '0'}
	return nil
}

func (a *answer) readFields() error {
	for {
		line, err := a.c.line()
		if err != nil || len(line) == 0 {
			return err
		}
		name, value, ok := bytes.Cut(line, []byte{':'})
		if !ok {
			return fmt.Errorf("header line %.40q: %w", line, errHead)
		}
		if err := a.readField(name, bytes.TrimSpace(value)); err != nil {
			return err
		}
	}
}

func (a *answer) readField(name, value []byte) error {
	switch {
	case bytes.EqualFold(name, []byte("content-length")):
		n, err := strconv.ParseUint(string(value), 10, 62)
		if err != nil {
			return fmt.Errorf("content-length %.40q: %w", value, errHead)
		}
		a.left, a.toEnd = int64(n), a.chunked
	case bytes.EqualFold(name, []byte("transfer-encoding")):
		if !bytes.EqualFold(value, []byte("chunked")) {
			return fmt.Errorf("transfer-encoding %.40q: %w", value, errHead)
		}
		a.chunked, a.toEnd, a.left = true, false, 0
	case bytes.EqualFold(name, []byte("connection")):
		a.close = a.close || bytes.EqualFold(value, []byte("close"))
	case bytes.EqualFold(name, []byte("content-type")):
		a.stream = bytes.HasPrefix(value, []byte("text/event-stream"))
	}
	return nil
}

// next returns the next part of the body, valid until the following call, and
// io.EOF after the last. A body that ends early is an io.ErrUnexpectedEOF.
func (a *answer) next() ([]byte, error) {
	if a.chunked && a.left == 0 && !a.ended {
		if err := a.openChunk(); err != nil {
			return nil, err
		}
	}
	if a.ended {
		return nil, io.EOF
	}
	if a.c.r == a.c.w {
		if err := a.c.fill(); err == io.EOF && a.toEnd {
			a.ended = true
			return nil, io.EOF
		} else if err != nil {
			return nil, unexpected(err)
		}
	}
	p := a.c.buf[a.c.r:a.c.w]
	if !a.toEnd && int64(len(p)) > a.left {
		p = p[:a.left]
	}
	a.c.r += len(p)
	a.left -= int64(len(p))
	a.ended = !a.chunked && !a.toEnd && a.left == 0
	return p, nil
}

// openChunk reads up to the data of the next chunk; after the last one it reads
// the trailer.
func (a *answer) openChunk() error {
	if a.opened {
		if line, err := a.c.line(); err != nil || len(line) != 0 {
			return a.malformed("end of chunk", line, err)
		}
	}
	line, err := a.c.line()
	if err != nil {
		return err
	}
	size, _, _ := bytes.Cut(line, []byte{';'})
	n, err := strconv.ParseUint(string(bytes.TrimSpace(size)), 16, 62)
	if err != nil {
		return a.malformed("chunk size", line, nil)
	}
	if a.left, a.opened = int64(n), true; n > 0 {
		return nil
	}
	for {
		line, err := a.c.line()
		if err != nil {
			return err
		}
		if len(line) == 0 {
			a.ended = true
			return nil
		}
	}
}

func (a *answer) malformed(what string, line []byte, err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%s %.40q: %w", what, line, errHead)
}

// reusable reports whether the connection can take another request.
func (a *answer) reusable() bool { return a.ended && !a.close && !a.toEnd && a.c.r == a.c.w }
