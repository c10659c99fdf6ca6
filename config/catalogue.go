package config

import (
	"encoding/json"
	"slices"
	"time"
)

// Model is a name that callers use, and the pool that serves it.
type Model struct {
	// ID is what callers write as model. Up to 128 letters, digits and
	// . _ : / @ + -. Required, and unlike every other id.
	ID string `yaml:"id"`
	// Pool is the name of the pool that serves the model. Required.
	Pool string `yaml:"pool"`
	// Created is the day that /v1/models shows, as YYYY-MM-DD in UTC. Required.
	Created time.Time `yaml:"created"`
	// ContextWindow is the largest number of tokens that prompt and answer may
	// have together. Tokens. Required.
	ContextWindow int `yaml:"context_window"`
	// UpstreamModel replaces the value of model in the request, when set.
	// Default: empty, the request is left as it is.
	UpstreamModel string `yaml:"upstream_model"`
	// Root is what /v1/models shows as root, which benchmark harnesses read to
	// find the tokenizer. Default: the model's id.
	Root string `yaml:"root"`
	// Request is a mapping of members that are spliced into every request, in
	// this order, in place of the caller's members of the same name.
	Request []Member `yaml:"request"`
	// FirstByteTimeout replaces timeouts.first_byte for this model, when set.
	// Duration. Default: 0s, which means timeouts.first_byte.
	FirstByteTimeout time.Duration `yaml:"first_byte_timeout"`
}

// Member is one member of a JSON object. Value is valid JSON.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Pool is a group of replicas that serve the same thing. They come from
// replicas, dns or consul, or from several of these.
type Pool struct {
	// Replicas are the base URLs of the vLLM servers: scheme, host and port,
	// nothing else. Default: [].
	Replicas []string `yaml:"replicas"`
	// DNS are URLs like http://name:8000: every address of the name is a
	// replica. Looked up again every few seconds. Default: [].
	DNS []string `yaml:"dns"`
	// Consul is a service, or a list of them, whose instances are replicas.
	// Default: [].
	Consul []Service `yaml:"consul"`
	// Adapters makes the LoRA adapters that the replicas announce callable as
	// models, each with the context window and the like of the pool's model that
	// it adapts. Default: false.
	Adapters bool `yaml:"adapters"`
	// MaxInFlight is how many requests of this gateway may run on one replica at
	// one time; what is beyond waits in the gateway. Count. Default: 0, which
	// means that it is learned from the queue that the replica tells of.
	MaxInFlight int `yaml:"max_in_flight"`
	// QueueLength is how many requests may wait in the gateway when all replicas
	// are full; a caller may have half of them. Count. Default: 10000.
	QueueLength int `yaml:"queue.max_length"`
	// QueueWait is how long any request may wait, whatever its plan says.
	// Duration. Default: 1h.
	QueueWait time.Duration `yaml:"queue.max_wait"`
	// CheckInterval is how often each replica's health is checked and its load
	// read. A load older than 2s is not believed, so beyond that the gateway
	// knows its own requests only. 100ms to 30s. Duration. Default: 1s.
	CheckInterval time.Duration `yaml:"check_interval"`
	// BreakerFaults is how many faults in a row open a replica's breaker. 1 to
	// 1000. Count. Default: 5.
	BreakerFaults int `yaml:"breaker_faults"`
	// APIKey is what the replicas themselves want as bearer token, if anything.
	// Default: empty, no Authorization header is sent.
	APIKey Secret `yaml:"api_key"`
	// APIKeyFile is a file that holds api_key.
	APIKeyFile string `yaml:"api_key_file"`
	// TLS says whom to believe and what to show, to replicas whose address
	// begins with https.
	TLS ClientTLS `yaml:"tls"`
	// Endpoints are those of vLLM's endpoints that are let through, without
	// /v1/. Known: chat/completions, completions, embeddings, responses,
	// messages, score, rerank, tokenize, detokenize, pooling, classify.
	// Default: [chat/completions, completions, embeddings].
	Endpoints []string `yaml:"endpoints"`
}

// Serves reports whether the pool lets the endpoint through, which is written
// as in Endpoints: chat/completions.
func (p Pool) Serves(endpoint string) bool { return slices.Contains(p.Endpoints, endpoint) }

// Plan is what a caller may use.
type Plan struct {
	// Limits all hold at the same time. Default: [], unlimited.
	Limits []Limit `yaml:"limits"`
	// AllowModels are the ids of the only models that the plan may use.
	// Default: [], every model.
	AllowModels []string `yaml:"models.allow"`
	// DenyModels are the ids of models that the plan may not use. Default: [].
	DenyModels []string `yaml:"models.deny"`
	// AllowFields are members of a request that are refused unless named here:
	// priority, kv_transfer_params. Default: [].
	AllowFields []string `yaml:"allow_fields"`
	// DefaultTokens is what is reserved for an answer when the request has no
	// max_tokens. Tokens. Default: 1024.
	DefaultTokens int `yaml:"default_tokens"`
	// QueuePolicy is what happens when all replicas are full: queue waits, unless
	// the predicted wait is above queue.max_wait; never_refuse waits however long
	// it takes; refuse does not wait. Default: queue.
	QueuePolicy string `yaml:"queue.policy"`
	// QueueWait is the longest wait for a place. Duration. Default: 30s.
	QueueWait time.Duration `yaml:"queue.max_wait"`
	// Priority is the class in which the plan's requests wait: 1 to 9, the
	// highest first; one turn in 16 goes to the class that was passed over
	// longest. Count. Default: 5.
	Priority int `yaml:"queue.priority"`
	// Weight is a caller's part, by tokens, beside the others of its priority who
	// wait: 1 to 1000. Count. Default: 1.
	Weight int `yaml:"queue.weight"`
}

// What a plan's queue.policy may be.
const (
	QueueWaits        = "queue"
	QueueNeverRefuses = "never_refuse"
	QueueRefuses      = "refuse"
)

// MayUse reports whether the plan may use the model.
func (p Plan) MayUse(model string) bool {
	if slices.Contains(p.DenyModels, model) {
		return false
	}
	return len(p.AllowModels) == 0 || slices.Contains(p.AllowModels, model)
}

// Limit is one limit of a plan. Exactly one of Requests, Tokens and Concurrent
// is set; the others are 0.
type Limit struct {
	// Requests is how many requests may start in any window of Per. Count.
	Requests int64 `yaml:"requests"`
	// Tokens is how many tokens, of prompt and answer, may be charged in any
	// window of Per. Tokens.
	Tokens int64 `yaml:"tokens"`
	// Concurrent is how many requests may run at one time. Count.
	Concurrent int64 `yaml:"concurrent"`
	// Per is the length of the sliding window: 1s to 31d. Required with
	// requests and tokens, refused with concurrent. Duration.
	Per time.Duration `yaml:"per"`
}

// Key is a static key. Only its digest is configured.
type Key struct {
	// Name is what logs and metrics call the key. Required, and unlike every
	// other name.
	Name string `yaml:"name"`
	// Owner is whose limits the key shares. Default: the key's name.
	Owner string `yaml:"owner"`
	// Plan is the name of the plan that the key is under. Required.
	Plan string `yaml:"plan"`
	// SHA256 is the plain SHA-256 of the key, as 64 hex digits. Required, and
	// unlike every other digest. To make it: printf %s "$KEY" | sha256sum
	SHA256 [32]byte `yaml:"sha256"`
}
