package consultest

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
)

// NodeAddress is the address of the agent's node.
const NodeAddress = "10.9.9.9"

// Agent is a Consul agent with its catalogue in memory.
type Agent struct {
	mux *http.ServeMux

	mu       sync.Mutex
	index    uint64
	services map[string]*service // by ID
	changed  chan struct{}       // closed by the next write
	queries  []url.Values
	acl      string // the token that may read; empty is any
}

type service struct {
	registration api.AgentServiceRegistration
	checks       map[string]*api.HealthCheck
}

// NewAgent makes an agent without services.
func NewAgent() *Agent {
	a := &Agent{mux: http.NewServeMux(), index: 100}
	a.Restart()
	a.mux.HandleFunc("GET /v1/health/service/{name}", a.health)
	a.mux.HandleFunc("PUT /v1/agent/service/register", a.register)
	a.mux.HandleFunc("PUT /v1/agent/service/deregister/{id}", a.deregister)
	a.mux.HandleFunc("PUT /v1/agent/service/maintenance/{id}", a.maintain)
	a.mux.HandleFunc("PUT /v1/agent/check/update/{id}", a.update)
	return a
}

// ServeHTTP answers as the agent's HTTP API does.
func (a *Agent) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// Restart forgets all services and begins with a small index.
func (a *Agent) Restart() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.index, a.services = 10, map[string]*service{}
	a.wake()
}

// Bump is a write that concerns no service, such as a renewed check.
func (a *Agent) Bump() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.write()
}

// RequireToken lets only queries with the token see anything.
func (a *Agent) RequireToken(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.acl = token
	a.write()
}

// Queries are the parameters of all health queries so far.
func (a *Agent) Queries() []url.Values {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.queries)
}

// Services are the IDs of the services that are registered.
func (a *Agent) Services() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var ids []string
	for id := range a.services {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// write counts a change and wakes those who wait. The caller holds mu.
func (a *Agent) write() {
	a.index++
	a.wake()
}

func (a *Agent) wake() {
	if a.changed != nil {
		close(a.changed)
	}
	a.changed = make(chan struct{})
}

func (a *Agent) health(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	a.mu.Lock()
	a.queries = append(a.queries, q)
	a.mu.Unlock()
	a.block(r, q)
	a.mu.Lock()
	defer a.mu.Unlock()
	list := []*api.ServiceEntry{}
	if a.acl != "" && r.Header.Get("X-Consul-Token") != a.acl {
		w.Header().Set("X-Consul-Results-Filtered-By-ACLs", "true")
	} else {
		list = a.entries(r.PathValue("name"), q.Get("tag"))
	}
	w.Header().Set("X-Consul-Index", strconv.FormatUint(a.index, 10))
	w.Header().Set("X-Consul-KnownLeader", "true")
	w.Header().Set("X-Consul-LastContact", "0")
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}

// block holds a query back until its index is not the present one any more.
func (a *Agent) block(r *http.Request, q url.Values) {
	index, _ := strconv.ParseUint(q.Get("index"), 10, 64)
	wait, err := time.ParseDuration(q.Get("wait"))
	if err != nil || wait > 10*time.Minute {
		wait = 5 * time.Minute
	}
	wait += rand.N(wait/16 + 1)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for index > 0 {
		a.mu.Lock()
		now, changed := a.index, a.changed
		a.mu.Unlock()
		if now > index {
			return
		}
		select {
		case <-changed:
			if a.restarted(index) {
				return
			}
		case <-timer.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// restarted reports whether the index has gone back: a real agent would have
// cut the query when it went down.
func (a *Agent) restarted(index uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.index < index
}

// entries lists a service's instances. The caller holds mu.
func (a *Agent) entries(name, tag string) []*api.ServiceEntry {
	list := []*api.ServiceEntry{}
	for id, s := range a.services {
		reg := &s.registration
		if reg.Name != name || tag != "" && !slices.Contains(reg.Tags, tag) {
			continue
		}
		weights := api.AgentWeights{Passing: 1, Warning: 1}
		if reg.Weights != nil {
			weights = *reg.Weights
		}
		e := &api.ServiceEntry{
			Node: &api.Node{Node: "node1", Address: NodeAddress},
			Service: &api.AgentService{
				ID: id, Service: reg.Name, Address: reg.Address, Port: reg.Port,
				Tags: reg.Tags, Meta: reg.Meta, Weights: weights,
			},
			Checks: api.HealthChecks{{CheckID: "serfHealth", Name: "Serf Health Status", Status: api.HealthPassing}},
		}
		for _, c := range s.checks {
			e.Checks = append(e.Checks, c)
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b *api.ServiceEntry) int { return strings.Compare(a.Service.ID, b.Service.ID) })
	return list
}
