package devicecode

import (
	"net/netip"
	"sync"
	"time"
)

// throttle bounds polls on this gateway, so that a flood of them does not reach
// Redis. It counts whole seconds: at their edge twice the bound may pass.
type throttle struct {
	mu     sync.Mutex
	second int64
	all    int
	counts map[netip.Addr]int // of this second, so never more than all
	most   int
	each   int
}

func newThrottle(most, each int) *throttle {
	return &throttle{most: most, each: each, counts: map[netip.Addr]int{}}
}

// allow takes one poll of the address at now.
func (t *throttle) allow(address netip.Addr, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if second := now.Unix(); second != t.second {
		t.second, t.all = second, 0
		clear(t.counts)
	}
	if t.all >= t.most || t.counts[address] >= t.each {
		return false
	}
	t.all++
	t.counts[address]++
	return true
}

// network is whom an address stands for: an IPv6 host has a whole /64 to
// choose from.
func network(address netip.Addr) netip.Addr {
	address = address.Unmap().WithZone("")
	if address.Is6() {
		prefix, _ := address.Prefix(64)
		return prefix.Addr()
	}
	return address
}
