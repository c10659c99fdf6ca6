package proxy

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"

	"mete/config"
	"mete/proxy/front"
)

// bounds are those of a configuration, lowered to what fits into this process.
type bounds struct{ connections, requests, perAddress int }

const (
	leastSpare = 64  // descriptors that are left for Redis, logs, checks of replicas
	mostSpare  = 512 // and for clients that are being told why they are refused
)

// fit lowers bounds so that there is a descriptor for each connection and for
// what each running request has to a replica: a process that runs out of them
// fails those it has let in.
func fit(b config.Bounds, descriptors int) bounds {
	room := descriptors - min(max(descriptors/8, leastSpare), mostSpare)
	requests := max(min(b.Requests, room/2), 1)
	return bounds{connections: max(min(b.Connections, room-requests), 1), requests: requests, perAddress: b.ConnectionsPerAddress}
}

// descriptors is how many files the process may open; the runtime has raised it
// to what is allowed.
func descriptors() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || limit.Cur > 1<<30 {
		return 1 << 30
	}
	return int(limit.Cur)
}

// LoweredBounds says which bounds are in force in place of the configured ones,
// and "" if those fit into the descriptors that the process may open.
func (g *Gateway) LoweredBounds() string {
	t := g.table.Load()
	want := t.config.Bounds
	if t.bounds.connections == want.Connections && t.bounds.requests == want.Requests {
		return ""
	}
	return fmt.Sprintf("%d connections and %d requests fit into the %d descriptors that the process may open",
		t.bounds.connections, t.bounds.requests, descriptors())
}

// outOfDescriptors reports whether err is for want of them here.
func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// admit refuses a request of which there are too many, before anything is done
// for it.
func (x *exchange) admit() error {
	if x.rank > x.table.bounds.requests {
		return refuseOverload
	}
	if len(x.head.forwardedFor) == 0 {
		return nil
	}
	// Connections of clients behind a proxy are the proxy's: what they have
	// running is counted in their place.
	client := x.clientAddress()
	if !client.IsValid() || client.IsLoopback() || client == x.peerAddress() {
		return nil
	}
	if !x.g.addresses.Take(client, x.table.bounds.perAddress) {
		return refuseAddress
	}
	x.counted = client
	return nil
}

// forwards reports whether an address is a proxy's that many send through.
func (g *Gateway) forwards(a netip.Addr) bool { return g.table.Load().proxies.Trusts(a) }

func (g *Gateway) connectionBounds() front.Bounds {
	b := g.table.Load().bounds
	return front.Bounds{Connections: b.connections, PerAddress: b.perAddress}
}

// turnAway is the whole answer to a connection that is one too many.
func (g *Gateway) turnAway(why front.Reason) []byte {
	r := refuseConnections
	if why == front.TooManyOne {
		r = refuseAddress
	}
	g.metrics.refused(r)
	body, id := errorBody(r), g.ids.next()
	return append(fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n"+
		"retry-after: %d\r\nretry-after-ms: %d\r\nx-request-id: %x\r\n\r\n",
		r.status, fasthttp.StatusMessage(r.status), len(body), int64(r.retryAfter.Seconds()), r.retryAfter.Milliseconds(), id[:]), body...)
}
