package main

import (
	"crypto/tls"
	"fmt"
	"net"

	"mete/config"
	"mete/config/certs"
)

// serverTLS is what a listener needs for TLS; nil if it has none. All of them
// speak HTTP/1.1 and nothing else.
func (r *running) serverTLS(what string, t config.ServerTLS) (*tls.Config, error) {
	made, err := certs.Server(t, r.certTrouble, "http/1.1")
	if err != nil {
		return nil, fmt.Errorf("%s listener: %w", what, err)
	}
	return made, nil
}

// certTrouble logs files that were changed to something that cannot be used.
func (r *running) certTrouble(err error) { r.log.Error().Err(err).Msg("TLS") }

// urlOf is where a listener is reached on this host.
func urlOf(ln net.Listener, t config.ServerTLS) string { return scheme(t) + ln.Addr().String() }

func scheme(t config.ServerTLS) string {
	if t.On() {
		return "https://"
	}
	return "http://"
}
