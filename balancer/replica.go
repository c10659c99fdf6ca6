package balancer

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// Replica is one vLLM server. Its exported fields never change; its counters
// are this process's own. Its methods are safe for concurrent use.
type Replica struct {
	ID   string // host:port, unique in its pool
	URL  string // scheme://host:port, without a slash at the end
	Host string // Host header and TLS name: the port only where it is not the scheme's own
	TLS  bool

	secure   *tls.Config  // the pool's; nil: nothing but defaults
	clock    func() int64 // nanoseconds since the pool was made, never 0
	inFlight atomic.Int64
	prefill  atomic.Int64
	computed atomic.Uint32 // blocks of BlockTokens that it was sent and did not know
	slot     uint16        // its number in prefixes, never that of another for long
	hash     uint64        // of its ID
	rate     rate
	endings  [outcomes]atomic.Uint64
	weight   atomic.Int64
	warming  atomic.Int64 // when its slow start began; 0 is never
	fullTill atomic.Int64 // its queue was full: rather not before this time
	holds    atomic.Uint32
	breaker  *breaker
	signal   signal
	reach    reach
	served   atomic.Pointer[served]
	kick     chan struct{} // asks its watcher for a check now

	mu    sync.Mutex // guards what follows
	whys  [holds]string
	since int64 // when it was first held out, if it is
	told  State // to OnChange
	check checkState
}

// InFlight is the number of leases held.
func (r *Replica) InFlight() int64 { return r.inFlight.Load() }

// Prefill is the number of prompt tokens sent and not answered yet.
func (r *Replica) Prefill() int64 { return r.prefill.Load() }

// Ended is the number of leases that have ended with o.
func (r *Replica) Ended(o Outcome) uint64 { return r.endings[o].Load() }

// TLSName is the name that the replica's certificate must bear.
func (r *Replica) TLSName() string {
	if name, _, err := net.SplitHostPort(r.Host); err == nil {
		return name
	}
	return strings.Trim(r.Host, "[]")
}

// TLSConfig is what a connection to the replica needs, nil if it needs no TLS.
func (r *Replica) TLSConfig() *tls.Config {
	if !r.TLS {
		return nil
	}
	made := r.secure.Clone()
	if made == nil {
		made = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if made.ServerName == "" {
		made.ServerName = r.TLSName()
	}
	return made
}

// take adds a place unless limit are taken; a limit of 0 is none.
func (r *Replica) take(limit, tokens int64) bool {
	for {
		n := r.inFlight.Load()
		if limit > 0 && n >= limit {
			return false
		}
		if r.inFlight.CompareAndSwap(n, n+1) {
			r.prefill.Add(tokens)
			return true
		}
	}
}

// give undoes take.
func (r *Replica) give(tokens int64) {
	r.prefill.Add(-tokens)
	r.inFlight.Add(-1)
}

// checkSoon asks for a check now rather than at the next tick.
func (r *Replica) checkSoon() {
	select {
	case r.kick <- struct{}{}:
	default: // one is asked for already
	}
}

func newReplica(e Endpoint, clock func() int64) (*Replica, error) {
	u, err := url.Parse(e.URL)
	if err != nil {
		return nil, fmt.Errorf("replica %w", err)
	}
	port, known := schemePorts[u.Scheme]
	switch {
	case !known || u.Hostname() == "":
		return nil, fmt.Errorf("replica %q: want http://host:port", u.Redacted())
	case u.User != nil || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("replica %q: only scheme, host and port are allowed", u.Redacted())
	}
	name := e.Host
	if name == "" {
		name = u.Hostname()
	}
	host := bracketed(name)
	if p := u.Port(); p != "" && p != port {
		port = p
		host = net.JoinHostPort(name, port)
	}
	id := net.JoinHostPort(u.Hostname(), port)
	r := &Replica{ID: id, URL: u.Scheme + "://" + id, Host: host, TLS: u.Scheme == "https"}
	r.clock = clock
	r.hash = xxhash.Sum64String(id)
	r.kick = make(chan struct{}, 1)
	return r, nil
}

var schemePorts = map[string]string{"http": "80", "https": "443"}

func bracketed(name string) string {
	if ip := net.ParseIP(name); ip != nil && ip.To4() == nil {
		return "[" + name + "]"
	}
	return name
}
