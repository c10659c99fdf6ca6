package proxy

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"mete/balancer"
	"mete/config"
	"mete/proxy/body"
)

// table is what one configuration says about models and pools. It is built
// whole, swapped in at once, and never changed.
type table struct {
	config    *config.Config
	bounds    bounds
	metrics   *metrics
	proxies   config.Proxies // believed when they say for whom they speak
	models    map[string]*model
	listed    []catalogueEntry
	catalogue []byte // listed, as GET /v1/models answers

	adapterPools []*pool  // those whose LoRA adapters are callable
	adapters     sync.Map // name → *model
}

// model is one name that callers use.
type model struct {
	*config.Model
	pool      *pool
	upstream  []byte        // the model's name for the replicas as a JSON string, nil to leave it
	seed      uint64        // of the hashes of its prompts: replicas' caches tell models and adapters apart
	adapter   string        // the name of a LoRA adapter, which not every replica may have
	members   []body.Member // spliced into each request
	firstByte time.Duration // limit for a stream's first byte
	metrics   *modelMetrics
}

// pool is the replicas behind a model.
type pool struct {
	*balancer.Pool
	endpoints     []string
	authorization []byte // header line for the replicas, with its CRLF; nil for none
	metrics       *poolMetrics
}

func (p *pool) serves(endpoint string) bool { return slices.Contains(p.endpoints, endpoint) }

func newTable(cfg *config.Config, pools map[string]*balancer.Pool, m *metrics) (*table, error) {
	t := &table{config: cfg, bounds: fit(cfg.Bounds, descriptors()), metrics: m, proxies: config.NewProxies(cfg.TrustedProxies), models: make(map[string]*model, len(cfg.Models))}
	byName := make(map[string]*pool, len(pools))
	for name, settings := range cfg.Pools {
		p, ok := pools[name]
		if !ok {
			return nil, fmt.Errorf("pool %q has no replicas to choose from", name)
		}
		byName[name] = newPool(p, settings, m)
		if settings.Adapters {
			t.adapterPools = append(t.adapterPools, byName[name])
		}
	}
	for i := range cfg.Models {
		entry := &cfg.Models[i]
		made, err := newModel(entry, byName[entry.Pool], cfg, m)
		if err != nil {
			return nil, fmt.Errorf("model %q: %w", entry.ID, err)
		}
		t.models[entry.ID] = made
		t.listed = append(t.listed, newEntry(entry, cfg.Service))
	}
	t.catalogue = catalogueOf(t.listed)
	return t, nil
}

func newPool(p *balancer.Pool, settings config.Pool, m *metrics) *pool {
	made := &pool{Pool: p, endpoints: settings.Endpoints, metrics: m.pool(p.Name())}
	if key := settings.APIKey.Reveal(); key != "" {
		made.authorization = []byte("Authorization: Bearer " + key + "\r\n")
	}
	return made
}

func newModel(entry *config.Model, p *pool, cfg *config.Config, m *metrics) (*model, error) {
	made := &model{Model: entry, pool: p, firstByte: cfg.Timeouts.FirstByte, metrics: m.model(entry.ID), seed: xxhash.Sum64String(entry.ID)}
	if entry.FirstByteTimeout > 0 {
		made.firstByte = entry.FirstByteTimeout
	}
	if entry.UpstreamModel != "" {
		made.upstream, _ = json.Marshal(entry.UpstreamModel) // a string always marshals
	}
	for _, member := range entry.Request {
		spliced, err := body.NewMember(member.Name, member.Value)
		if err != nil {
			return nil, err
		}
		made.members = append(made.members, spliced)
	}
	return made, nil
}

// catalogueEntry is one model as GET /v1/models shows it: the service's fields,
// and beside them vLLM's root and max_model_len, which benchmark harnesses
// read.
type catalogueEntry struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	OwnedBy     string `json:"owned_by"`
	Root        string `json:"root"`
	MaxModelLen int    `json:"max_model_len"`
}

func newEntry(m *config.Model, service string) catalogueEntry {
	return catalogueEntry{
		ID: m.ID, Object: "model", Created: m.Created.Unix(), OwnedBy: service,
		Root: m.Root, MaxModelLen: m.ContextWindow,
	}
}

func catalogueOf(all []catalogueEntry) []byte {
	list, _ := json.Marshal(struct { // plain strings and numbers always marshal
		Object string           `json:"object"`
		Data   []catalogueEntry `json:"data"`
	}{"list", all})
	return list
}
