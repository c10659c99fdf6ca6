package proxy

import (
	"encoding/json"

	"github.com/cespare/xxhash/v2"

	"mete/balancer"
)

// find returns the model that a caller names: one of the configuration's, or a
// LoRA adapter that a replica announces where its pool makes those callable.
// It returns nil if there is none.
func (t *table) find(name []byte) *model {
	if m, ok := t.models[string(name)]; ok {
		return m
	}
	for _, p := range t.adapterPools {
		if a, ok := p.announced(string(name)); ok {
			return t.adapter(p, a)
		}
	}
	return nil
}

// announced looks an adapter up among those that the replicas of p have now.
func (p *pool) announced(name string) (balancer.Model, bool) {
	for _, r := range p.Replicas() {
		for _, m := range r.Models() {
			if m.ID == name && m.Parent != "" {
				return m, true
			}
		}
	}
	return balancer.Model{}, false
}

// adapter returns the model for an adapter: its base's, but for the name. It is
// made once; what is announced bounds how many there are.
func (t *table) adapter(p *pool, a balancer.Model) *model {
	if m, ok := t.adapters.Load(a.ID); ok {
		return m.(*model)
	}
	base := t.models[t.config.BaseOf(p.Name(), a.Parent).ID]
	entry := *base.Model
	entry.ID, entry.Root, entry.UpstreamModel = a.ID, a.ID, ""
	made := *base
	made.Model, made.pool, made.upstream, made.adapter = &entry, p, nil, a.ID
	made.metrics, made.seed = t.metrics.model(a.ID), xxhash.Sum64String(a.ID)
	m, _ := t.adapters.LoadOrStore(a.ID, &made)
	return m.(*model)
}

// list is the answer to GET /v1/models: the catalogue, then the adapters that
// are announced now.
func (t *table) list() []byte {
	if len(t.adapterPools) == 0 {
		return t.catalogue
	}
	all := append([]catalogueEntry(nil), t.listed...)
	for _, p := range t.adapterPools {
		for _, name := range p.Adapters() {
			if m := t.find([]byte(name)); m.adapter != "" {
				all = append(all, newEntry(m.Model, t.config.Service))
			}
		}
	}
	return catalogueOf(all)
}

// entry is the answer to GET /v1/models/{id}, nil if there is no such model.
func (t *table) entry(id string) []byte {
	m := t.find([]byte(id))
	if m == nil {
		return nil
	}
	b, _ := json.Marshal(newEntry(m.Model, t.config.Service)) // plain strings and numbers always marshal
	return b
}
