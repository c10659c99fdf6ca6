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
	// Redis says where keys and limits are kept.
	Redis Redis `yaml:"redis"`
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
