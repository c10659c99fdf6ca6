package consultest

import (
	"encoding/json"
	"net/http"

	"github.com/hashicorp/consul/api"
)

func (a *Agent) register(w http.ResponseWriter, r *http.Request) {
	var s service
	if err := json.NewDecoder(r.Body).Decode(&s.registration); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	reg := &s.registration
	if reg.ID == "" {
		reg.ID = reg.Name
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s.checks = map[string]*api.HealthCheck{}
	if c := reg.Check; c != nil {
		status := c.Status
		if status == "" {
			status = api.HealthCritical
		}
		id := "service:" + reg.ID
		if old := a.services[reg.ID]; old != nil && old.checks[id] != nil {
			status = old.checks[id].Status
		}
		s.checks[id] = &api.HealthCheck{CheckID: id, Name: c.Name, Status: status, ServiceID: reg.ID}
	}
	a.services[reg.ID] = &s
	a.write()
}

func (a *Agent) deregister(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.services[r.PathValue("id")] == nil {
		http.Error(w, "unknown service ID", http.StatusNotFound)
		return
	}
	delete(a.services, r.PathValue("id"))
	a.write()
}

func (a *Agent) maintain(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.services[r.PathValue("id")]
	if s == nil {
		http.Error(w, "unknown service ID", http.StatusNotFound)
		return
	}
	id := api.ServiceMaintPrefix + r.PathValue("id")
	if r.URL.Query().Get("enable") == "true" {
		s.checks[id] = &api.HealthCheck{
			CheckID: id, Name: "Service Maintenance Mode", Status: api.HealthCritical, Notes: r.URL.Query().Get("reason"),
		}
	} else {
		delete(s.checks, id)
	}
	a.write()
}

func (a *Agent) update(w http.ResponseWriter, r *http.Request) {
	var u struct{ Status, Output string }
	if err := json.NewDecoder(r.Body).Decode(&u); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.services {
		if c := s.checks[r.PathValue("id")]; c != nil {
			c.Status, c.Output = u.Status, u.Output
			a.write()
			return
		}
	}
	http.Error(w, "unknown check", http.StatusNotFound)
}
