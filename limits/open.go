package limits

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"mete/config"
	"mete/config/certs"
)

// Open returns a client for the Redis that the configuration names. It does
// not connect. A call through it never waits longer than the configuration
// says, whatever becomes of Redis, and is never repeated by the client.
// Whatever the error says, it does not hold the URL.
func Open(c config.Redis) (redis.UniversalClient, error) {
	ours, err := certs.Client(c.TLS, nil)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	switch c.Kind() {
	case config.RedisEmbedded:
		return openEmbedded()
	case config.RedisCluster:
		o, err := redis.ParseClusterURL(c.ClientURL())
		if err != nil {
			return nil, errURL
		}
		bound(c, &o.Protocol, &o.ContextTimeoutEnabled, &o.MaxRetries, &o.DialerRetries, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout)
		trust(o.TLSConfig, ours)
		return redis.NewClusterClient(o), nil
	case config.RedisSentinel:
		o, err := redis.ParseFailoverURL(c.ClientURL())
		if err != nil {
			return nil, errURL
		}
		bound(c, &o.Protocol, &o.ContextTimeoutEnabled, &o.MaxRetries, &o.DialerRetries, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout)
		trust(o.TLSConfig, ours)
		return redis.NewFailoverClient(o), nil
	}
	o, err := redis.ParseURL(c.ClientURL())
	if err != nil {
		return nil, errURL
	}
	bound(c, &o.Protocol, &o.ContextTimeoutEnabled, &o.MaxRetries, &o.DialerRetries, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout)
	trust(o.TLSConfig, ours)
	return redis.NewClient(o), nil
}

// errURL stands for go-redis's own errors, which repeat the URL and its password.
var errURL = errors.New("redis url is not one that the client can use")

// bound sets what keeps a Redis that is frozen or gone from holding up a call.
// Left to its defaults the client waits for seconds, dials five times, repeats
// commands, and looks at no context's deadline.
func bound(c config.Redis, protocol *int, byContext *bool, retries, dials *int, dial, read, write, pool *time.Duration) {
	*byContext, *retries, *dials = true, -1, 1
	*protocol = 2 // the client looks for push messages before each reply of version 3, and we want none
	*dial, *read, *write, *pool = c.ConnectTimeout, c.Timeout, c.Timeout, c.Timeout
}

// trust adds our settings to those of the URL, which are nil without TLS.
func trust(t, ours *tls.Config) {
	if t == nil {
		return
	}
	t.MinVersion, t.RootCAs, t.GetClientCertificate = ours.MinVersion, ours.RootCAs, ours.GetClientCertificate
	if ours.ServerName != "" {
		t.ServerName = ours.ServerName
	}
}

// embedded is a client with its server in the same process. Closing it ends
// the server and forgets everything.
type embedded struct {
	*redis.Client
	server *miniredis.Miniredis
}

// Close ends the server after the client.
func (e *embedded) Close() error {
	err := e.Client.Close()
	e.server.Close()
	return err
}

// openEmbedded listens on a free port of loopback, behind a random password. A
// pipe in memory would not do: neither end of it has a buffer, and a long
// pipeline and its answers would wait for each other.
func openEmbedded() (redis.UniversalClient, error) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("embedded store: %w", err)
	}
	password := rand.Text()
	server.RequireAuth(password)
	server.ClockTTL(true) // or nothing would ever expire
	return &embedded{server: server, Client: redis.NewClient(&redis.Options{
		Addr: server.Addr(), Password: password,
		MaxRetries: -1, ContextTimeoutEnabled: true, DisableIdentity: true,
	})}, nil
}

// CheckPolicy returns a warning if Redis may throw keys away when its memory
// is full, and "" if it does not or does not say.
func CheckPolicy(ctx context.Context, rdb redis.UniversalClient) string {
	policy, err := rdb.ConfigGet(ctx, "maxmemory-policy").Result()
	name := policy["maxmemory-policy"]
	if err != nil || name == "" || name == "noeviction" {
		return ""
	}
	if strings.HasPrefix(name, "volatile-") {
		return fmt.Sprintf("redis may evict windows and slots (maxmemory-policy %s): limits may be exceeded; use noeviction", name)
	}
	return fmt.Sprintf("redis may evict keys (maxmemory-policy %s): callers may be locked out; use noeviction", name)
}
