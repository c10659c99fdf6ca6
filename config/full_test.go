package config

import (
	"encoding/hex"
	"testing"
	"time"
)

// wantFull is what testdata/good/full.yaml says. The request members are
// tested elsewhere and taken over here.
func wantFull(t *testing.T) *Config {
	t.Helper()
	pair := ServerTLS{CertFile: "testdata/consul-cert.pem", KeyFile: "testdata/consul-key.pem"}
	api, admin := pair, pair
	api.ClientCAFile, api.ClientCert, admin.ClientCAFile = "testdata/ca.pem", CertOptional, "testdata/ca.pem"
	shown := func(name string) ClientTLS {
		return ClientTLS{CAFile: "testdata/ca.pem", CertFile: pair.CertFile, KeyFile: pair.KeyFile, ServerName: name}
	}
	return &Config{
		Service:       "acme",
		Listen:        Listen{API: "127.0.0.1:1", Console: "127.0.0.1:3", Admin: "[::1]:2"},
		TLS:           ListenTLS{API: api, Console: pair, Admin: admin},
		ProxyProtocol: ProxyProtocol{From: []string{"10.0.0.0/24"}, Optional: true, Timeout: time.Second},
		AuthURL:       "https://login.example.com/console", TrustedProxies: []string{"10.0.0.0/8", "::1"},
		Redis: Redis{
			URL:     "rediss+sentinel://s:p@sentinel:26379/3?master_name=m&username=u&password=w&addr=other:26379",
			URLFile: "../redis-url", TLS: shown("redis.internal"),
			ConnectTimeout: time.Second, Timeout: 75 * time.Millisecond,
		},
		Consul: Consul{
			Address: "https://consul.internal:8501", Token: "fedcba9876543210fedcba9876543210", TokenFile: "../pepper",
			TLS: shown("server.dc1.consul"), Datacenter: "dc1", Namespace: "ml", Partition: "gpu",
			Register: Register{
				Name: "acme", ID: "acme-1", Address: "10.0.0.2", Port: 80, Tags: []string{"a", "b"},
				Check: "http://10.0.0.2:9090/readyz", CheckInterval: 10 * time.Second,
			},
		},
		StateDir: "testdata/state",
		Keystore: Keystore{
			Peppers: []Pepper{
				{Version: 1, Secret: testPepper},
				{Version: 2, Secret: "fedcba9876543210fedcba9876543210", SecretFile: "../pepper"},
			},
			AdminToken: "0123456789abcdef$",
		},
		Models: []Model{
			{
				ID: "org/model:v1", Pool: "a.b", Created: time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC),
				ContextWindow: 32768, UpstreamModel: "up", Root: "org/model", FirstByteTimeout: 20 * time.Minute,
				Request: loadFull(t).Models[0].Request,
			},
			{ID: "other", Pool: "c", Created: time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC), ContextWindow: 1, Root: "other"},
		},
		Pools: map[string]Pool{
			"a.b": {
				Replicas: []string{"http://10.0.0.5:8000", "https://vllm.internal:443", "http://[::1]:8000"},
				APIKey:   "token", Endpoints: []string{"score", "responses"},
				DNS: []string{"https://vllm.example.com:443"},
				Consul: []Service{
					{Service: "vllm-general"},
					{Service: "vllm", Tag: "big", Datacenter: "dc2", Namespace: "n", Partition: "p", Stale: true},
				},
				Adapters: true, MaxInFlight: 64, QueueLength: 500, QueueWait: 5 * time.Minute, CheckInterval: 500 * time.Millisecond, BreakerFaults: 3,
			},
			"c": {
				Replicas: []string{"http://vllm:1"}, Consul: []Service{{Service: "vllm-c"}},
				TLS:       shown("vllm.internal"),
				Endpoints: DefaultPool().Endpoints, QueueLength: 10000, QueueWait: time.Hour, CheckInterval: time.Second, BreakerFaults: 5,
			},
		},
		Plans: map[string]Plan{
			"free": {
				Limits:      []Limit{{Requests: 60, Per: time.Minute}, {Tokens: 1e6, Per: 31 * 24 * time.Hour}, {Concurrent: 4}},
				AllowModels: []string{"org/model:v1"}, DenyModels: []string{"other"},
				AllowFields: []string{"priority", "kv_transfer_params"}, DefaultTokens: 7,
				QueuePolicy: QueueWaits, QueueWait: 10 * time.Second, Priority: 9, Weight: 3,
			},
			"unlimited": {Limits: []Limit{}, DefaultTokens: 1024, QueuePolicy: QueueNeverRefuses, QueueWait: 30 * time.Second, Priority: 5, Weight: 1},
		},
		Keys: []Key{
			{Name: "ci", Owner: "platform@example.com", Plan: "free", SHA256: digest(t, "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff")},
			{Name: "cd", Owner: "cd", Plan: "unlimited", SHA256: digest(t, "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100")},
		},
		Device: Device{
			CodeLife: 5 * time.Minute, Interval: 2 * time.Second, KeyLife: 30 * day, Plans: []string{"free"},
			Pending: 7, StartsPerAddress: 8, Polls: 9, PollsPerAddress: 3,
		},
		Console: Console{
			APIURL: "https://api.example.com/v1",
			OIDC: OIDC{
				Issuer: "https://id.example.com", ClientID: "console", ClientSecret: "fedcba9876543210fedcba9876543210",
				ClientSecretFile: "../pepper", Scopes: []string{"groups"}, OwnerClaim: "sub", GroupsClaim: "roles", Label: "Example ID",
			},
			Header: Header{User: "X-User", Groups: "X-Groups", From: []string{"10.0.0.5"}},
			Plans:  []string{"free", "unlimited"}, Admins: []string{"ann@example.com"},
			Groups:      []Group{{Name: "ml", Plans: []string{"unlimited"}, Admin: true}},
			SessionIdle: time.Hour, SessionLife: 2 * day, AuditEntries: 500,
		},
		Bounds: Bounds{Body: 1 * MiB, BodiesInFlight: 64 * MB, HeaderBytes: 16 * KiB, Connections: 5, ConnectionsPerAddress: 4, Requests: 3, ReplicaConnections: 6},
		Timeouts: Timeouts{
			Header: time.Second, Body: 2 * time.Second, KeepAlive: 3 * time.Second, Write: 4 * time.Second,
			Connect: 5 * time.Millisecond, FirstByte: 90 * time.Minute, Idle: 6 * time.Second, Total: 24 * time.Hour,
			ReplicaKeepAlive: 1500 * time.Millisecond,
		},
		Shutdown: Shutdown{Drain: time.Minute},
		Log:      Log{Level: "debug", Format: "json", File: "/tmp/mete.log", Sample: 0.25},
		Metrics:  Metrics{Callers: 7, NativeHistograms: true},
		Trace: Trace{
			URL: "https://otel.example.com/v1/traces", Sample: 0.5,
			Authorization: "fedcba9876543210fedcba9876543210", AuthorizationFile: "../pepper",
		},
	}
}

func digest(t *testing.T, text string) [32]byte {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return [32]byte(raw)
}
