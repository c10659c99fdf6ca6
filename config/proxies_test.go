package config

import (
	"net/netip"
	"testing"
)

func TestClientBehindProxies(t *testing.T) {
	p := NewProxies([]string{"10.0.0.0/8", "::1", "192.0.2.9"})
	for _, row := range []struct{ name, peer, header, want string }{
		{"no proxy is not believed", "198.51.100.7", "203.0.113.1", "198.51.100.7"},
		{"a proxy is believed", "10.1.2.3", "203.0.113.1", "203.0.113.1"},
		{"a proxy that says nothing speaks for itself", "10.1.2.3", "", "10.1.2.3"},
		{"what the client wrote itself stands on the left", "10.1.2.3", "1.1.1.1, 203.0.113.1", "203.0.113.1"},
		{"a chain of proxies", "10.1.2.3", "1.1.1.1,203.0.113.1, 192.0.2.9", "203.0.113.1"},
		{"nobody but proxies", "10.1.2.3", "10.0.0.1, 10.0.0.2", "10.0.0.1"},
		{"with a port", "::1", "203.0.113.1:999", "203.0.113.1"},
		{"IPv6 with a port", "::1", "[2001:db8::1]:999", "2001:db8::1"},
		{"IPv4 in IPv6", "::ffff:10.0.0.1", "::ffff:203.0.113.1", "203.0.113.1"},
		{"nonsense ends the list", "10.1.2.3", "203.0.113.1, unknown", "10.1.2.3"},
		{"a network may be written as an address", "192.0.2.9", "203.0.113.1", "203.0.113.1"},
	} {
		if got := p.Client(netip.MustParseAddr(row.peer), row.header).String(); got != row.want {
			t.Errorf("%s: got %s, want %s", row.name, got, row.want)
		}
	}
}

func FuzzClient(f *testing.F) {
	f.Add("10.0.0.1, x, ,")
	f.Fuzz(func(t *testing.T, header string) {
		p := NewProxies([]string{"10.0.0.0/8"})
		stranger := netip.MustParseAddr("192.0.2.1")
		if p.Client(stranger, header) != stranger {
			t.Fatalf("%q was believed from a stranger", header)
		}
		if !p.Client(netip.MustParseAddr("10.0.0.1"), header).IsValid() {
			t.Fatalf("%q gave no address", header)
		}
	})
}
