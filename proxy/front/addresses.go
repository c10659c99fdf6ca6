package front

import (
	"net/netip"
	"sync"
)

// Addresses counts what each client address holds. The zero value is ready for
// use.
type Addresses struct {
	mu   sync.Mutex
	held map[netip.Addr]int
}

// Take adds one for the address, unless it has most already; 0 is no bound.
// What was taken must be released once.
func (a *Addresses) Take(address netip.Addr, most int) bool {
	key := network(address)
	a.mu.Lock()
	defer a.mu.Unlock()
	if most > 0 && a.held[key] >= most {
		return false
	}
	if a.held == nil {
		a.held = make(map[netip.Addr]int)
	}
	a.held[key]++
	return true
}

// Release gives back what Take took. It does nothing for the zero address.
func (a *Addresses) Release(address netip.Addr) {
	if !address.IsValid() {
		return
	}
	key := network(address)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held[key]--; a.held[key] <= 0 {
		delete(a.held, key)
	}
}

// Len is how many addresses hold something.
func (a *Addresses) Len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.held)
}

// network is what counts as one client: an IPv4 address, or the /64 that one
// host gets in IPv6.
func network(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if !a.Is6() {
		return a
	}
	prefix, _ := a.Prefix(64) // valid for every IPv6 address
	return prefix.Addr()
}
