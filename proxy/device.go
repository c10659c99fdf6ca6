package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"mete/devicecode"
)

// deviceRoute is one of the two routes of device login, which are called
// without a key.
type deviceRoute func(context.Context, devicecode.Request) devicecode.Response

// device answers with what a route of device login says. A body that is longer
// than it needs to see is handed over cut short, and refused there.
func (x *exchange) device(route deviceRoute) error {
	switch {
	case route == nil:
		return callerRefusal(404, "unknown_url", "", "Device login is switched off on this gateway.")
	case !x.ctx.IsPost():
		return x.methodNotAllowed("POST")
	}
	if err := x.readAtMost(devicecode.MaxBody + 1); err != nil && !errors.Is(err, errTooLarge) {
		return x.bodyError(err)
	}
	answer := route(x.life, devicecode.Request{
		ContentType:   string(x.head.contentType),
		Body:          x.body.b,
		Authorization: string(x.ctx.Request.Header.Peek("Authorization")),
		Address:       x.clientAddress(),
	})
	x.status = answer.Status
	x.ctx.Response.SetStatusCode(answer.Status)
	for name, value := range answer.Header {
		x.ctx.Response.Header.Set(name, value)
	}
	x.ctx.Response.SetBody(answer.Body)
	x.commonHeader()
	return nil
}

// clientAddress is where the request comes from, behind the proxies that the
// configuration trusts.
func (x *exchange) clientAddress() netip.Addr {
	return x.table.proxies.Client(x.peerAddress(), string(x.head.forwardedFor))
}

// peerAddress is the other end of the connection, behind balancers that name
// it by the PROXY protocol.
func (x *exchange) peerAddress() netip.Addr {
	peer, ok := x.ctx.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return peer.AddrPort().Addr().Unmap().WithZone("")
}
