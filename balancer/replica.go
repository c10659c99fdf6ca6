package balancer

import (
	"fmt"
	"net"
	"net/url"
	"sync/atomic"
)

// Endpoint says where a replica is.
type Endpoint struct {
	URL string // base URL: http://host:port, or https
}

// Static makes endpoints of a fixed list of base URLs.
func Static(urls []string) []Endpoint {
	endpoints := make([]Endpoint, len(urls))
	for i, u := range urls {
		endpoints[i].URL = u
	}
	return endpoints
}

// Replica is one vLLM server. Its exported fields never change; the counters
// are this process's own and safe for concurrent use.
type Replica struct {
	ID   string // host:port, unique in its pool
	URL  string // scheme://host:port, without a slash at the end
	Host string // what goes into a Host header: the port only where it is not the scheme's own
	TLS  bool

	inFlight atomic.Int64
	prefill  atomic.Int64
	endings  [outcomes]atomic.Uint64
}

// InFlight is the number of leases held.
func (r *Replica) InFlight() int64 { return r.inFlight.Load() }

// Prefill is the number of prompt tokens sent and not answered yet.
func (r *Replica) Prefill() int64 { return r.prefill.Load() }

// Ended is the number of leases that have ended with o.
func (r *Replica) Ended(o Outcome) uint64 { return r.endings[o].Load() }

// load weighs the work which this process has on the replica, in prompt tokens.
func (r *Replica) load() int64 {
	return r.inFlight.Load()*placeTokens + r.prefill.Load()
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

func newReplica(e Endpoint) (*Replica, error) {
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
	host := u.Host
	if u.Port() != "" && u.Port() != port {
		port = u.Port()
	} else {
		host = hostOnly(u.Hostname())
	}
	id := net.JoinHostPort(u.Hostname(), port)
	return &Replica{ID: id, URL: u.Scheme + "://" + id, Host: host, TLS: u.Scheme == "https"}, nil
}

var schemePorts = map[string]string{"http": "80", "https": "443"}

func hostOnly(name string) string {
	if ip := net.ParseIP(name); ip != nil && ip.To4() == nil {
		return "[" + name + "]"
	}
	return name
}
