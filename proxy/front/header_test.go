package front

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// v2 makes a header of version 2.
func v2(command, family byte, rest string) string {
	return string(signatureV2) + string([]byte{0x20 | command, family, byte(len(rest) >> 8), byte(len(rest))}) + rest
}

const addressesV4 = "\xc0\x00\x02\x01\x0a\x00\x00\x01\xdc\x04\x00\x50" // 192.0.2.1:56324 to 10.0.0.1:80

var headers = []struct{ name, sent, source, fault string }{
	{"version 1, IPv4", "PROXY TCP4 192.0.2.1 10.0.0.1 56324 80\r\n", "192.0.2.1:56324", ""},
	{"version 1, IPv6", "PROXY TCP6 2001:db8::1 ::1 1 80\r\n", "[2001:db8::1]:1", ""},
	{"version 1, unknown", "PROXY UNKNOWN\r\n", "", ""},
	{"version 1 with a bare line feed", "PROXY TCP4 192.0.2.1 10.0.0.1 56324 80\n", "", "bad"},
	{"version 1 with a port too high", "PROXY TCP4 192.0.2.1 10.0.0.1 65536 80\r\n", "", "bad"},
	{"version 1 with an address of the other family", "PROXY TCP4 ::1 10.0.0.1 1 80\r\n", "", "bad"},
	{"version 1 without an end", "PROXY TCP4 " + strings.Repeat("1", 200), "", "bad"},
	{"version 2, IPv4", v2(1, 0x11, addressesV4), "192.0.2.1:56324", ""},
	{"version 2 with more behind the addresses", v2(1, 0x11, addressesV4+"\x04\x00\x03abc"), "192.0.2.1:56324", ""},
	{"version 2, the balancer itself", v2(0, 0, ""), "", ""},
	{"version 2, a command that there is not", v2(2, 0x11, addressesV4), "", "bad"},
	{"version 2 with too few bytes", v2(1, 0x11, addressesV4[:11]), "", "bad"},
	{"version 2, endless", string(signatureV2) + "\x21\x11\xff\xff", "", "bad"},
	{"HTTP", "GET / HTTP/1.1\r\n\r\n", "", "none"},
	{"TLS", "\x16\x03\x01\x02\x00", "", "none"},
}

func TestHeadersAreReadAndNothingBehindThem(t *testing.T) {
	const behind = "GET / HTTP/1.1\r\n\r\n"
	for _, c := range headers {
		for _, cut := range []int{0, 1, 7, 15} { // of the first of two segments; 0 is one of all
			if cut >= len(c.sent) {
				continue
			}
			server, client := pair(t)
			sendCut(t, client, c.sent+behind, cut)
			source, err := readHeader(server, 5*time.Second)
			switch {
			case c.fault == "none" && !errors.Is(err, errNoHeader), c.fault == "bad" && !errors.Is(err, errBadHeader), c.fault == "" && err != nil:
				t.Errorf("%s, cut at %d: %v", c.name, cut, err)
			}
			if got := textOf(source); got != c.source {
				t.Errorf("%s, cut at %d: got source %q, want %q", c.name, cut, got, c.source)
			}
			want := c.sent + behind
			if c.fault == "" {
				want = behind
			}
			if rest, _ := io.ReadAll(server); string(rest) != want {
				t.Errorf("%s, cut at %d: behind the header is %q", c.name, cut, rest)
			}
		}
	}
}

func textOf(a *net.TCPAddr) string {
	if a == nil {
		return ""
	}
	return a.String()
}

// sendCut sends text in two segments and ends.
func sendCut(t *testing.T, c *net.TCPConn, text string, cut int) {
	t.Helper()
	for _, part := range []string{text[:cut], text[cut:]} {
		if _, err := io.WriteString(c, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
}

func TestAHeaderThatDoesNotComeIsNotWaitedForLong(t *testing.T) {
	server, client := pair(t)
	if _, err := io.WriteString(client, "PROXY TCP4 "); err != nil {
		t.Fatal(err)
	}
	if _, err := readHeader(server, 20*time.Millisecond); err == nil || errors.Is(err, errNoHeader) {
		t.Error(err)
	}
}

// pair is the two ends of a connection.
func pair(t *testing.T) (server, client *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dialed, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = accepted.Close(); _ = dialed.Close() })
	return accepted.(*net.TCPConn), dialed.(*net.TCPConn)
}

// FuzzHeaderSize: what is taken is a header as the field's own reader sees it,
// no less and no more, and it does not depend on where segments end.
func FuzzHeaderSize(f *testing.F) {
	for _, c := range headers {
		f.Add([]byte(c.sent))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		size, err := headerSize(b)
		if size > len(b) || size > 0 && err != nil || size == 0 && err == nil && len(b) > fixedV2+longestV2 {
			t.Fatalf("size %d of %d, %v", size, len(b), err)
		}
		if size == 0 {
			return
		}
		rest := bufio.NewReaderSize(bytes.NewReader(b[:size]), 8<<10)
		if _, err := proxyproto.Read(rest); err != nil || rest.Buffered() > 0 {
			t.Fatalf("%v, %d bytes left", err, rest.Buffered())
		}
		for i := 1; i < size; i++ {
			if early, err := headerSize(b[:i]); early != 0 || err != nil {
				t.Fatalf("the first %d of %d bytes: size %d, %v", i, size, early, err)
			}
		}
		parseHeader(b[:size])
	})
}
