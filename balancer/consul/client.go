package consul

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/consul/api"
)

// Config says how to reach Consul. What is empty is taken from the environment
// as Consul's own tools do (CONSUL_HTTP_ADDR, CONSUL_HTTP_TOKEN and so on).
type Config struct {
	Address    string // http://127.0.0.1:8500, https or unix
	Token      string
	CAFile     string // PEM, for https
	CertFile   string // PEM, if Consul wants to know us
	KeyFile    string
	ServerName string // in Consul's certificate, where it is not the address
	Datacenter string // for all that names none itself, likewise the next two
	Namespace  string // Consul Enterprise
	Partition  string // Consul Enterprise
}

// Client talks to one Consul agent. It may be shared.
type Client struct {
	api *api.Client
}

const (
	dialTimeout   = 2 * time.Second
	connectionsTo = 64 // idle connections kept; each service watched holds one
)

// New makes a client. It does not talk to Consul yet.
func New(c Config) (*Client, error) {
	client, err := api.NewClient(&api.Config{
		Address:    c.Address,
		Token:      c.Token,
		Datacenter: c.Datacenter,
		Namespace:  c.Namespace,
		Partition:  c.Partition,
		TLSConfig: api.TLSConfig{
			Address: c.ServerName, CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile,
		},
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: dialTimeout,
			MaxIdleConnsPerHost: connectionsTo,
			IdleConnTimeout:     time.Minute,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("consul: %w", err)
	}
	return &Client{api: client}, nil
}
