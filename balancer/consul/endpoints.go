package consul

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/consul/api"

	"mete/balancer"
)

// endpoints makes the pool's view of what Consul says of a service, in a
// lasting order. Instances that have no port are none.
func endpoints(entries []*api.ServiceEntry) []balancer.Endpoint {
	list := make([]balancer.Endpoint, 0, len(entries))
	for _, e := range entries {
		if e.Service == nil || e.Service.DefaultPort() == 0 {
			continue
		}
		list = append(list, endpoint(e))
	}
	slices.SortFunc(list, func(a, b balancer.Endpoint) int { return strings.Compare(a.URL, b.URL) })
	return list
}

func endpoint(e *api.ServiceEntry) balancer.Endpoint {
	host := e.Service.Address
	if host == "" && e.Node != nil {
		host = e.Node.Address
	}
	at := url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(e.Service.DefaultPort()))}
	if e.Service.Meta["scheme"] == "https" {
		at.Scheme = "https"
	}
	p := balancer.Endpoint{
		URL: at.String(), Weight: e.Service.Weights.Passing, Models: models(e.Service.Meta["models"]),
	}
	switch e.Checks.AggregatedStatus() {
	case api.HealthWarning:
		p.Weight = e.Service.Weights.Warning
	case api.HealthCritical:
		p.Held, p.Why = balancer.HeldCritical, critical(e.Checks)
	case api.HealthMaint:
		p.Held, p.Why = balancer.HeldMaintenance, maintenance(e.Checks)
	}
	return p
}

// models reads a list of names, parted by commas or blanks.
func models(list string) []string {
	return strings.FieldsFunc(list, func(c rune) bool { return c == ',' || c == ' ' })
}

// critical names the checks that fail. Their output is left out: it may hold
// anything.
func critical(checks api.HealthChecks) string {
	var names []string
	for _, c := range checks {
		if c.Status == api.HealthCritical {
			names = append(names, fmt.Sprintf("%q", c.Name))
		}
	}
	return "consul check " + strings.Join(names, ", ")
}

// maintenance gives the reason that the operator gave.
func maintenance(checks api.HealthChecks) string {
	for _, c := range checks {
		if c.CheckID == api.NodeMaint || strings.HasPrefix(c.CheckID, api.ServiceMaintPrefix) {
			return c.Notes
		}
	}
	return ""
}
