package config

import "slices"

// Config is one whole configuration. Fields that the file leaves out hold the
// value that Default gives them.
type Config struct {
	// Service is the word of the platform: it stands in keys (sk-mete-...) and
	// in owned_by. Exactly 4 lower-case letters. Default: mete.
	Service string `yaml:"service"`
	// Listen says where the gateway can be reached.
	Listen Listen `yaml:"listen"`
	// AuthURL is where browsers reach the console: https, host, and a path if it
	// lies below one. People approve device logins at {auth_url}/authorize.
	// Default: empty, which means http:// and listen.console, on loopback only.
	AuthURL string `yaml:"auth_url"`
	// TLS says with what certificates each listener speaks TLS.
	TLS ListenTLS `yaml:"tls"`
	// ProxyProtocol says which balancers in front of the API listener and the
	// console name the client by the PROXY protocol.
	ProxyProtocol ProxyProtocol `yaml:"proxy_protocol"`
	// TrustedProxies are the addresses of proxies and load balancers in front of
	// the gateway, as 10.0.0.5 or 10.0.0.0/8: from them, X-Forwarded-For is
	// believed. Default: [].
	TrustedProxies []string `yaml:"trusted_proxies"`
	// Redis says where keys and limits are kept.
	Redis Redis `yaml:"redis"`
	// Consul says how to reach Consul, for pools whose replicas are found there.
	Consul Consul `yaml:"consul"`
	// StateDir is a folder, made if need be, where the replicas that were found
	// last are kept, for a start while Consul or DNS is away. Default: empty,
	// nothing is kept.
	StateDir string `yaml:"state_dir"`
	// Keystore holds what is needed to make keys and to look them up.
	Keystore Keystore `yaml:"keystore"`
	// Models is the catalogue, in the order in which /v1/models lists it. At
	// least one.
	Models []Model `yaml:"models"`
	// Pools are the groups of replicas, by name. At least one.
	Pools map[string]Pool `yaml:"pools"`
	// Plans are the limits that a key can be under, by name.
	Plans map[string]Plan `yaml:"plans"`
	// Keys are static keys, for bootstrap and for machines.
	Keys []Key `yaml:"keys"`
	// Device says how programs get keys by device login.
	Device Device `yaml:"device"`
	// Console says who may sign in to the web pages.
	Console Console `yaml:"console"`
	// Bounds are the hard limits on what the gateway holds at one time.
	Bounds Bounds `yaml:"bounds"`
	// Timeouts bound every wait on the way of a request.
	Timeouts Timeouts `yaml:"timeouts"`
	// Answer chooses what the gateway adds to the header of an answer.
	Answer Answer `yaml:"answer"`
	// Shutdown says how a gateway that was told to stop leaves.
	Shutdown Shutdown `yaml:"shutdown"`
	// Log says what is logged, how, and where to.
	Log Log `yaml:"log"`
	// Metrics says what /metrics of the admin listener holds.
	Metrics Metrics `yaml:"metrics"`
	// Trace says where spans are sent, and for how many requests.
	Trace Trace `yaml:"trace"`
}

// Model returns the model that callers name id, or nil.
func (c *Config) Model(id string) *Model {
	for i := range c.Models {
		if c.Models[i].ID == id {
			return &c.Models[i]
		}
	}
	return nil
}

// Plan returns the plan called name, and whether there is one.
func (c *Config) Plan(name string) (Plan, bool) {
	plan, ok := c.Plans[name]
	return plan, ok
}

// PoolNames returns the names of all pools, sorted.
func (c *Config) PoolNames() []string { return sortedKeys(c.Pools) }

// PlanNames returns the names of all plans, sorted.
func (c *Config) PlanNames() []string { return sortedKeys(c.Plans) }

func sortedKeys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
