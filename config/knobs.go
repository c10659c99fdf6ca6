package config

import "time"

// Listen holds addresses, each host:port; an empty host means every interface.
type Listen struct {
	// API is where callers connect. Default: ":8080".
	API string `yaml:"api"`
	// Console is where the web pages are served. Default: empty, the console
	// and device login are off.
	Console string `yaml:"console"`
	// Admin is where metrics, health checks, profiles and the key API are
	// served. Keep it off the public network. Default: "127.0.0.1:9090".
	Admin string `yaml:"admin"`
}

// Keystore holds what is needed to make keys and to look them up.
type Keystore struct {
	// Peppers are the secrets under which keys are digested before they are
	// stored. The highest version makes new keys; keys made under any of them
	// are found. Drop a version only when no key needs it any more.
	// Default: [], no keys but static ones.
	Peppers []Pepper `yaml:"peppers"`
	// AdminToken authenticates the key API on the admin listener. At least 16
	// characters. Default: empty, the key API is off.
	AdminToken Secret `yaml:"admin_token"`
	// AdminTokenFile is a file that holds admin_token.
	AdminTokenFile string `yaml:"admin_token_file"`
}

// Pepper is one version of the secret under which keys are digested.
type Pepper struct {
	// Version is stored beside each key: 1 to 255. Required, and unlike every
	// other version.
	Version int `yaml:"version"`
	// Secret is the pepper itself, at least 32 characters. This or secret_file
	// is required. To make one: openssl rand -hex 32
	Secret Secret `yaml:"secret"`
	// SecretFile is a file that holds secret.
	SecretFile string `yaml:"secret_file"`
}

// Bounds are hard limits on what the gateway holds at one time.
type Bounds struct {
	// Body is the largest body of one request. Size. Default: 32MiB.
	Body Size `yaml:"body"`
	// BodiesInFlight is the largest sum of the bodies of all running requests.
	// At least bounds.body. Size. Default: 1GiB.
	BodiesInFlight Size `yaml:"bodies_in_flight"`
	// HeaderBytes is the largest request line and header block together. 1KiB
	// to 1MiB. Size. Default: 8KiB.
	HeaderBytes Size `yaml:"header_bytes"`
	// Connections is how many client connections may be open at one time, on
	// the API listener and on the console, each. It and requests are lowered to
	// what fits into the descriptors that the process may open. Count.
	// Default: 20000.
	Connections int `yaml:"connections"`
	// ConnectionsPerAddress is how many connections one client address may hold
	// open, and how many requests it may have running that come by a trusted
	// proxy. The /64 of an IPv6 address counts as one; loopback is not bounded.
	// Count. Default: 4096.
	ConnectionsPerAddress int `yaml:"connections_per_address"`
	// Requests is how many requests may run at one time. Count. Default: 10000.
	Requests int `yaml:"requests"`
	// ReplicaConnections is how many connections may be open to one replica.
	// Count. Default: 4096.
	ReplicaConnections int `yaml:"replica_connections"`
}

// Timeouts bound every wait on the way of a request. None can be switched off.
type Timeouts struct {
	// Header is how long a client may take to send a request's header.
	// Duration. Default: 10s.
	Header time.Duration `yaml:"header"`
	// Body is how long a client may take to send a request's body. Duration.
	// Default: 60s.
	Body time.Duration `yaml:"body"`
	// KeepAlive is how long an idle client connection is kept. Duration.
	// Default: 330s.
	KeepAlive time.Duration `yaml:"keep_alive"`
	// Write is how long a client may take to accept one write before it is
	// cut. Duration. Default: 30s.
	Write time.Duration `yaml:"write"`
	// Connect is how long a connection to a replica may take to open.
	// Duration. Default: 500ms.
	Connect time.Duration `yaml:"connect"`
	// FirstByte is how long a replica may take to the first byte of a streamed
	// answer. Duration. Default: 300s.
	FirstByte time.Duration `yaml:"first_byte"`
	// Idle is how long a streamed answer may stand still. Duration.
	// Default: 30s.
	Idle time.Duration `yaml:"idle"`
	// Total is how long a replica may take to answer whole when the answer is
	// not streamed. Duration. Default: 600s.
	Total time.Duration `yaml:"total"`
	// ReplicaKeepAlive is how long an idle connection to a replica is kept. It
	// must be shorter than the replica's own, which is 5s for vLLM. Duration.
	// Default: 3.5s.
	ReplicaKeepAlive time.Duration `yaml:"replica_keep_alive"`
}

// Answer chooses what the gateway adds to the header of an answer.
type Answer struct {
	// ReplicaHeader adds x-mete-replica, which names the replica that
	// answered. Default: true.
	ReplicaHeader bool `yaml:"replica_header"`
	// ServerTiming adds server-timing with the gateway's own stages.
	// Default: true.
	ServerTiming bool `yaml:"server_timing"`
}

// Shutdown says how a gateway that was told to stop leaves.
type Shutdown struct {
	// LameDuck is how long the gateway reports itself not ready, but goes on
	// accepting requests, so that load balancers can look away. Duration.
	// Default: 5s.
	LameDuck time.Duration `yaml:"lame_duck"`
	// Drain is how long running exchanges may then go on. Duration.
	// Default: 10m.
	Drain time.Duration `yaml:"drain"`
}
