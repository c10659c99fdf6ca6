package config

import (
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"
)

const (
	longestLook = 30 * time.Second // between two checks of a replica
	mostFaults  = 1000
	serviceRule = "the name of a service, up to 128 letters, digits and . _ -"
)

var (
	serviceName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$`)
	labelName   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
)

func (d *document) checkConsul(c *Config) {
	v := c.Consul
	d.checkConsulAddress(v.Address)
	if v.Address != "" && !strings.HasPrefix(v.Address, "https://") {
		d.useless("consul.tls", "write https:// in consul.address")
	}
	d.checkPlace("consul", v.Datacenter, v.Namespace, v.Partition)
	d.checkRegister(v.Register)
}

func (d *document) checkConsulAddress(address string) {
	const path = "consul.address"
	if !d.has(path) {
		return
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "unix":
		d.fail(path, "%s is not the address of an agent: write one like http://127.0.0.1:8500", d.quoted(path))
	case u.Scheme == "unix":
		if u.Host != "" || !strings.HasPrefix(u.Path, "/") {
			d.fail(path, "names no socket: write unix:///path/to/socket, with three slashes")
		}
	default:
		if err := checkBase(address, "http://127.0.0.1:8500", "token_file"); err != nil {
			d.fail(path, "%s %v", d.quoted(path), err)
		}
	}
}

// checkPlace checks where in Consul something is.
func (d *document) checkPlace(path, datacenter, namespace, partition string) {
	const rule = "up to 64 letters, digits and _ -"
	d.namedIfGiven(path+".datacenter", datacenter, labelName, rule)
	d.namedIfGiven(path+".namespace", namespace, labelName, rule)
	d.namedIfGiven(path+".partition", partition, labelName, rule)
}

func (d *document) checkRegister(r Register) {
	const path = "consul.register"
	for _, name := range []string{"id", "address", "port", "tags", "check"} {
		if d.has(path+"."+name) && !d.has(path+".name") {
			d.fail(path+"."+name, "is of no use without a name: add name, what the gateway is called in Consul, or remove the line")
		}
	}
	d.namedIfGiven(path+".name", r.Name, serviceName, serviceRule)
	d.namedIfGiven(path+".id", r.ID, serviceName, "up to 128 letters, digits and . _ -")
	if !isAddress(r.Address) {
		d.namedIfGiven(path+".address", r.Address, hostName, "a host name or an address, without a port")
	}
	if d.has(path + ".port") {
		d.upTo(path+".port", int64(r.Port), 65535)
	}
	d.span(path+".check_interval", r.CheckInterval, time.Second, 10*time.Minute)
	if !d.has(path+".check") || r.Check == NoCheck {
		return
	}
	if u, err := url.Parse(r.Check); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		d.fail(path+".check", "%s is not a URL that the agent can ask: write one like http://10.0.0.2:9090/readyz, or none", d.quoted(path+".check"))
	}
}

// checkSources checks where a pool's replicas come from: anything, but from
// somewhere.
func (d *document) checkSources(path string, p Pool) {
	if len(p.Replicas) == 0 && len(p.DNS) == 0 && len(p.Consul) == 0 && !d.broken(path+".consul") {
		d.fail(path, `names no replicas: add replicas, like ["http://10.0.0.5:8000"], or dns, or consul`)
		return
	}
	d.checkReplicas(path+".replicas", p.Replicas)
	d.checkDNS(path+".dns", p.DNS)
	seen := map[Service]int{}
	for i, s := range p.Consul {
		at := path + ".consul"
		if d.has(index(at, 0)) { // a list, not one alone
			unique(d, seen, s, i, index(at, i), at)
			at = index(at, i)
		}
		d.named(at+".service", s.Service, serviceName, serviceRule)
		d.checkPlace(at, s.Datacenter, s.Namespace, s.Partition)
	}
}

func (d *document) checkDNS(path string, names []string) {
	seen := map[string]int{}
	for i, name := range names {
		at := index(path, i)
		if err := checkBase(name, "http://vllm.internal:8000", "the replicas' key as api_key_file"); err != nil {
			d.fail(at, "%s %v", d.quoted(at), err)
		} else if u, _ := url.Parse(name); isAddress(u.Hostname()) {
			d.fail(at, "%s holds an address, not a name: write it under replicas", d.quoted(at))
		}
		unique(d, seen, strings.ToLower(name), i, at, path)
	}
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// checkBalancing checks how a pool treats its replicas.
func (d *document) checkBalancing(path, name string, c *Config) {
	p := c.Pools[name]
	if d.has(path + ".max_in_flight") {
		d.upTo(path+".max_in_flight", int64(p.MaxInFlight), maxSockets)
	}
	d.upTo(path+".queue.max_length", int64(p.QueueLength), maxSockets)
	d.duration(path+".queue.max_wait", p.QueueWait, time.Second)
	d.span(path+".check_interval", p.CheckInterval, 100*time.Millisecond, longestLook)
	d.upTo(path+".breaker_faults", int64(p.BreakerFaults), mostFaults)
	if p.Adapters && len(c.ModelsOf(name)) == 0 {
		d.fail(path+".adapters", "is of no use: no model names the pool, so its adapters have no context window; add a model, or remove the line")
	}
}
