package front

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/pires/go-proxyproto"
	"golang.org/x/sys/unix"
)

// Lengths in the PROXY protocol, in bytes.
const (
	longestV1 = 107     // with its line end
	fixedV2   = 16      // what stands before the part of variable length
	longestV2 = 2 << 10 // of that part: addresses, and what balancers add about TLS
)

var (
	signatureV1 = []byte("PROXY ")
	signatureV2 = []byte("\r\n\r\n\x00\r\nQUIT\n")

	errNoHeader  = errors.New("no PROXY header")
	errBadHeader = errors.New("not a PROXY header")
)

// readHeader takes the header of the PROXY protocol from the start of c, and
// no byte that stands behind it. It returns the client's address, nil if the
// balancer speaks for itself. The error is errNoHeader when something else
// stands there, of which nothing is taken.
func readHeader(c *net.TCPConn, wait time.Duration) (*net.TCPAddr, error) {
	_ = c.SetReadDeadline(time.Now().Add(wait))
	header := make([]byte, fixedV2+longestV2)
	size, err := peekHeader(c, header)
	if err != nil {
		_ = c.SetReadDeadline(time.Time{})
		return nil, err
	}
	if _, err := io.ReadFull(c, header[:size]); err != nil { // it is there already
		return nil, err
	}
	return parseHeader(header[:size]), c.SetReadDeadline(time.Time{})
}

// peekHeader waits until a whole header is there, and leaves it there.
func peekHeader(c *net.TCPConn, into []byte) (size int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var fault error
	err = raw.Read(func(fd uintptr) bool {
		n, _, err := unix.Recvfrom(int(fd), into, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			return false
		case err != nil:
			fault = err
			return true
		case n == 0:
			fault = io.ErrUnexpectedEOF
			return true
		}
		size, fault = headerSize(into[:n])
		return fault != nil || size > 0
	})
	return size, errors.Join(err, fault)
}

// headerSize is how long the header is that b begins with, 0 if more of it must
// come first to be whole.
func headerSize(b []byte) (int, error) {
	switch {
	case begins(b, signatureV2):
		if len(b) < fixedV2 {
			return 0, nil
		}
		length := int(binary.BigEndian.Uint16(b[fixedV2-2:]))
		if length > longestV2 {
			return 0, fmt.Errorf("%w: %d bytes long", errBadHeader, length)
		}
		return checked(b, fixedV2+length)
	case begins(b, signatureV1):
		end := bytes.IndexByte(b[:min(len(b), longestV1)], '\n')
		if end < 0 && len(b) >= longestV1 {
			return 0, fmt.Errorf("%w: no end", errBadHeader)
		}
		return checked(b, end+1)
	}
	return 0, errNoHeader
}

// begins reports whether b begins with the signature, as far as it goes.
func begins(b, signature []byte) bool {
	n := min(len(b), len(signature))
	return bytes.Equal(b[:n], signature[:n])
}

// checked returns size if b holds that much and it is a header.
func checked(b []byte, size int) (int, error) {
	if len(b) < size || size == 0 {
		return 0, nil
	}
	rest := bufio.NewReaderSize(bytes.NewReader(b[:size]), fixedV2+longestV2)
	if _, err := proxyproto.Read(rest); err != nil {
		return 0, fmt.Errorf("%w: %w", errBadHeader, err)
	}
	if _, err := rest.Peek(1); err == nil {
		return 0, fmt.Errorf("%w: ends early", errBadHeader)
	}
	return size, nil
}

// parseHeader returns the source address of a header that was checked, nil if
// it has none.
func parseHeader(b []byte) *net.TCPAddr {
	header, err := proxyproto.Read(bufio.NewReaderSize(bytes.NewReader(b), fixedV2+longestV2))
	if err != nil || header.Command.IsLocal() {
		return nil
	}
	source, _, ok := header.TCPAddrs()
	if !ok {
		return nil
	}
	return source
}
