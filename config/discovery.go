package config

import (
	"reflect"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Consul says how to reach Consul, and how others find the gateway there.
type Consul struct {
	// Address is the agent's URL: http://host:8500, https://host:8501, or
	// unix:///path/to/socket. Default: empty, what CONSUL_HTTP_ADDR says, else
	// http://127.0.0.1:8500.
	Address string `yaml:"address"`
	// Token is the ACL token. It needs service:read and node:read, and
	// service:write for what register names. Default: empty, what
	// CONSUL_HTTP_TOKEN says.
	Token Secret `yaml:"token"`
	// TokenFile is a file that holds token.
	TokenFile string `yaml:"token_file"`
	// TLS says whom to believe and what to show. Only with https.
	TLS ClientTLS `yaml:"tls"`
	// Datacenter is the one of every service that names none itself. Default:
	// empty, the agent's.
	Datacenter string `yaml:"datacenter"`
	// Namespace is the one of every service that names none itself, in Consul
	// Enterprise. Default: empty.
	Namespace string `yaml:"namespace"`
	// Partition is the one of every service that names none itself, in Consul
	// Enterprise. Default: empty.
	Partition string `yaml:"partition"`
	// Register makes the gateway to be found in Consul.
	Register Register `yaml:"register"`
}

// Register is the gateway as a service in Consul: registered once it answers,
// and deregistered before it drains.
type Register struct {
	// Name is the service's name. Default: empty, the gateway is not registered.
	Name string `yaml:"name"`
	// ID tells this gateway from others on the same agent. Default: empty, made
	// of the name, the host and the port.
	ID string `yaml:"id"`
	// Address is where others reach the gateway. Default: empty, the agent's own
	// address.
	Address string `yaml:"address"`
	// Port is where others reach the gateway. Default: 0, that of listen.api.
	Port int `yaml:"port"`
	// Tags are the service's tags. Default: [].
	Tags []string `yaml:"tags"`
	// Check is the URL that the agent asks whether the gateway is well; none is
	// no check. Default: empty, /readyz of the admin listener.
	Check string `yaml:"check"`
	// CheckInterval is how often the agent asks. 1s to 10m. Duration. Default: 5s.
	CheckInterval time.Duration `yaml:"check_interval"`
}

// NoCheck is what stands in Register.Check for a service without a check.
const NoCheck = "none"

// Service is a service in Consul whose instances are replicas of a pool.
type Service struct {
	// Service is its name. Required.
	Service string `yaml:"service"`
	// Tag is one that an instance must bear. Default: empty, any.
	Tag string `yaml:"tag"`
	// Datacenter is where the service is. Default: empty, consul.datacenter.
	Datacenter string `yaml:"datacenter"`
	// Namespace is where the service is. Default: empty, consul.namespace.
	Namespace string `yaml:"namespace"`
	// Partition is where the service is. Default: empty, consul.partition.
	Partition string `yaml:"partition"`
	// Stale lets any of Consul's servers answer, not only their leader: less
	// load there, and an answer while there is no leader. Default: false.
	Stale bool `yaml:"stale"`
}

// Upstream is the model's name for the replicas.
func (m *Model) Upstream() string {
	if m.UpstreamModel != "" {
		return m.UpstreamModel
	}
	return m.ID
}

// ModelsOf returns the models that a pool serves, in the order of the file.
func (c *Config) ModelsOf(pool string) []*Model {
	var models []*Model
	for i := range c.Models {
		if c.Models[i].Pool == pool {
			models = append(models, &c.Models[i])
		}
	}
	return models
}

// BaseOf returns the model from which a LoRA adapter of the pool takes all but
// its name: the one that the replicas call parent, else the pool's first. It is
// nil for a pool whose adapters are not callable.
func (c *Config) BaseOf(pool, parent string) *Model {
	models := c.ModelsOf(pool)
	if !c.Pools[pool].Adapters || len(models) == 0 {
		return nil
	}
	for _, m := range models {
		if m.Upstream() == parent {
			return m
		}
	}
	return models[0]
}

func defaultConsul() Consul { return Consul{Register: Register{CheckInterval: 5 * time.Second}} }

// services reads one service, which need not stand in a list, or several.
func (d *document) services(path string, node ast.Node) []Service {
	var list []Service
	switch node.(type) {
	case ast.MapNode:
		list = make([]Service, 1)
		d.value(path, node, reflect.ValueOf(&list[0]).Elem())
	case *ast.SequenceNode:
		d.list(path, node, reflect.ValueOf(&list).Elem())
	default:
		d.fail(path, "must be a mapping or a list of them: write {service: NAME}")
	}
	return list
}
