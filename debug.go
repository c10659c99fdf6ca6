package main

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"mete/balancer"
	"mete/config"
)

// poolsView is the answer to GET /debug/pools.
type poolsView struct {
	Service string          `json:"service"`
	Version string          `json:"version"`
	Pools   []balancer.View `json:"pools"` // sorted by name
	Sources []sourceView    `json:"sources"`
}

// showPools answers GET /debug/pools: every replica's state, and why.
func (r *running) showPools(w http.ResponseWriter, _ *http.Request) {
	now := r.now.Load()
	v := poolsView{Service: now.cfg.Service, Version: buildVersion(), Pools: []balancer.View{}, Sources: []sourceView{}}
	for _, name := range now.cfg.PoolNames() {
		v.Pools = append(v.Pools, now.pools[name].Snapshot())
	}
	for _, s := range now.sources {
		v.Sources = append(v.Sources, s.status())
	}
	writeJSON(w, v)
}

// queueDepth is how many single requests GET /debug/queue shows of a pool.
const queueDepth = 100

// showQueue answers GET /debug/queue: who waits in each pool, where and why.
func (r *running) showQueue(w http.ResponseWriter, _ *http.Request) {
	list := []balancer.QueueView{}
	pools := r.pools()
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		list = append(list, pools[name].Queue(queueDepth))
	}
	writeJSON(w, map[string]any{"pools": list})
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = printJSON(w, value)
}

// routeView is the answer to GET /debug/route.
type routeView struct {
	Model    string `json:"model"`
	Upstream string `json:"upstream_model"` // its name for the replicas
	Base     string `json:"base,omitempty"` // of a LoRA adapter: the model whose settings it has
	Tokens   int64  `json:"tokens"`         // of the prompt, as asked
	balancer.Explanation
}

// showRoute answers GET /debug/route?model=...&tokens=...: what would be chosen
// and why, without sending or leasing anything.
func (r *running) showRoute(w http.ResponseWriter, request *http.Request) {
	query, err := url.ParseQuery(request.URL.RawQuery)
	model := query.Get("model")
	tokens, badTokens := strconv.ParseInt(cmp.Or(query.Get("tokens"), "0"), 10, 64)
	switch {
	case err != nil || model == "":
		adminError(w, http.StatusBadRequest, "missing_model", "name the model: /debug/route?model=NAME&tokens=COUNT")
		return
	case badTokens != nil || tokens < 0:
		adminError(w, http.StatusBadRequest, "invalid_value", "tokens must be a whole number, the length of the prompt")
		return
	}
	now := r.now.Load()
	var pool string
	v := routeView{Model: model, Tokens: tokens}
	need := balancer.Need{Tokens: tokens}
	if m := now.cfg.Model(model); m != nil {
		v.Upstream, pool = m.Upstream(), m.Pool
	} else if base := now.baseOf(model); base != nil {
		v.Upstream, v.Base, pool = model, base.ID, base.Pool
		need.Model = model
	} else {
		adminError(w, http.StatusNotFound, "model_not_found", fmt.Sprintf("there is no model %q; there are %s", model, strings.Join(now.modelNames(), ", ")))
		return
	}
	v.Explanation = now.pools[pool].Explain(need)
	writeJSON(w, v)
}

// baseOf returns the model that a LoRA adapter adapts, or nil.
func (s *setup) baseOf(adapter string) *config.Model {
	for _, name := range s.cfg.PoolNames() {
		for _, replica := range s.pools[name].Replicas() {
			for _, m := range replica.Models() {
				if m.ID == adapter && m.Parent != "" && s.cfg.Pools[name].Adapters {
					return s.cfg.BaseOf(name, m.Parent)
				}
			}
		}
	}
	return nil
}

// modelNames are all that callers can name, adapters last.
func (s *setup) modelNames() []string {
	var names []string
	for _, m := range s.cfg.Models {
		names = append(names, m.ID)
	}
	for _, pool := range s.cfg.PoolNames() {
		if !s.cfg.Pools[pool].Adapters {
			continue
		}
		for _, adapter := range s.pools[pool].Adapters() {
			if !slices.Contains(names, adapter) {
				names = append(names, adapter)
			}
		}
	}
	return names
}
