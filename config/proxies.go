package config

import (
	"net/netip"
	"strings"
)

// Proxies are addresses that are believed when they say for whom they speak.
type Proxies struct{ prefixes []netip.Prefix }

// NewProxies reads addresses and networks, such as 10.0.0.5 and 10.0.0.0/8.
// What is neither is left out; a checked configuration holds none.
func NewProxies(list []string) Proxies {
	var p Proxies
	for _, text := range list {
		if prefix, ok := parsePrefix(text); ok {
			p.prefixes = append(p.prefixes, prefix)
		}
	}
	return p
}

// Trusts reports whether the address is one of the proxies.
func (p Proxies) Trusts(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	for _, prefix := range p.prefixes {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

// Client is the address of whoever is behind the proxies. peer is the other end
// of the connection, and forwardedFor the value of X-Forwarded-For, several
// joined by commas. It is read from the right, where the proxy nearest to us
// writes, up to the first address that is no proxy: what stands left of that
// anybody may have written.
func (p Proxies) Client(peer netip.Addr, forwardedFor string) netip.Addr {
	client := peer.Unmap().WithZone("")
	for forwardedFor != "" && p.Trusts(client) {
		cut := strings.LastIndexByte(forwardedFor, ',')
		text := strings.TrimSpace(forwardedFor[cut+1:])
		forwardedFor = forwardedFor[:max(cut, 0)]
		next, err := netip.ParseAddr(text)
		if err != nil {
			if withPort, err2 := netip.ParseAddrPort(text); err2 == nil {
				next, err = withPort.Addr(), nil
			}
		}
		if err != nil {
			return client
		}
		client = next.Unmap().WithZone("")
	}
	return client
}

func parsePrefix(text string) (netip.Prefix, bool) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix.Masked(), true
	}
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()), true
}

func (d *document) prefixes(path string, list []string) {
	for i, text := range list {
		at := index(path, i)
		prefix, ok := parsePrefix(text)
		switch {
		case !ok:
			d.fail(at, "%s is not an address: write one like 10.0.0.5, or a network like 10.0.0.0/8", d.quoted(at))
		case prefix.Bits() == 0:
			d.fail(at, "%s is everybody: write the addresses of your proxies", d.quoted(at))
		}
	}
}
