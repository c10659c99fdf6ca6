package config

import "time"

// Default returns a new Config with every default, and no models, pools, plans
// or keys. Every default of the gateway stands in this file.
func Default() *Config {
	return &Config{
		Service: "mete",
		Listen:  Listen{API: ":8080", Admin: "127.0.0.1:9090"},
		Redis: Redis{
			URL:            Embedded,
			ConnectTimeout: 100 * time.Millisecond,
			Timeout:        50 * time.Millisecond,
		},
		ProxyProtocol: ProxyProtocol{Timeout: 3 * time.Second},
		Consul:        defaultConsul(),
		Pools:         map[string]Pool{},
		Plans:         map[string]Plan{},
		Device:        defaultDevice(),
		Console:       defaultConsole(),
		Bounds: Bounds{
			Body:                  32 * MiB,
			BodiesInFlight:        1 * GiB,
			HeaderBytes:           8 * KiB,
			Connections:           20000,
			ConnectionsPerAddress: 4096,
			Requests:              10000,
			ReplicaConnections:    4096,
		},
		Timeouts: defaultTimeouts(),
		Answer:   Answer{ReplicaHeader: true, ServerTiming: true},
		Shutdown: Shutdown{LameDuck: 5 * time.Second, Drain: 10 * time.Minute},
		Log:      Log{Level: "info", Format: "auto", Sample: 1},
		Metrics:  Metrics{Callers: 100, Requests: true},
		Trace:    Trace{Sample: 0.01},
	}
}

// DefaultPool returns what a pool has where the file says nothing.
func DefaultPool() Pool {
	return Pool{
		Endpoints:     []string{"chat/completions", "completions", "embeddings"},
		QueueLength:   10000,
		QueueWait:     time.Hour,
		CheckInterval: time.Second,
		BreakerFaults: 5,
	}
}

// DefaultPlan returns what a plan has where the file says nothing: unlimited.
func DefaultPlan() Plan {
	return Plan{DefaultTokens: 1024, QueuePolicy: QueueWaits, QueueWait: 30 * time.Second, Priority: 5, Weight: 1}
}

func defaultTimeouts() Timeouts {
	return Timeouts{
		Header:           10 * time.Second,
		Body:             60 * time.Second,
		KeepAlive:        330 * time.Second,
		Write:            30 * time.Second,
		Connect:          500 * time.Millisecond,
		FirstByte:        300 * time.Second,
		Idle:             30 * time.Second,
		Total:            600 * time.Second,
		ReplicaKeepAlive: 3500 * time.Millisecond,
	}
}

// fillDerived sets the defaults that follow from other fields.
func fillDerived(c *Config) {
	for i := range c.Models {
		if m := &c.Models[i]; m.Root == "" {
			m.Root = m.ID
		}
	}
	for i := range c.Keys {
		if k := &c.Keys[i]; k.Owner == "" {
			k.Owner = k.Name
		}
	}
}
