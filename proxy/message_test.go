package proxy

import "testing"

// readMessages returns how many whole messages p begins with, and whether what
// follows them is refused, when it comes in parts of this size.
func readMessages(p []byte, size int) (whole int, refused bool) {
	var m message
	for len(p) > 0 {
		part := p[:min(size, len(p))]
		n := m.skip(part)
		if n < len(part) {
			own, err := m.take(part[n:])
			if err != nil {
				return whole, true
			}
			n += own
			if m.over() {
				whole++
			}
		}
		p = p[n:]
	}
	return whole, false
}

// FuzzMessage: what is a request does not depend on where its bytes were cut.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(postWire("/v1/chat/completions", chatBody) + nextRequest))
	for _, c := range strictRequests() {
		f.Add([]byte(c.wire))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		whole, refused := readMessages(p, len(p)+1)
		for _, size := range []int{1, 2, 7} {
			if w, r := readMessages(p, size); w != whole || r != refused {
				t.Fatalf("at once: %d, %v; in parts of %d: %d, %v", whole, refused, size, w, r)
			}
		}
	})
}

// TestACodingIsSpelledInASCII: other readers do not take a Kelvin sign for a k.
func TestACodingIsSpelledInASCII(t *testing.T) {
	for coding, want := range map[string]bool{"Chunked": false, "chun\u212aed": true} {
		wire := "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: " + coding + "\r\n\r\n0\r\n\r\n"
		if whole, refused := readMessages([]byte(wire), len(wire)); refused != want {
			t.Errorf("%q: %d whole, refused %v", coding, whole, refused)
		}
	}
}
