package config

import (
	"strings"
	"time"
)

// Embedded is the Redis URL that stands for a store in the gateway's own
// process, which forgets everything at exit.
const Embedded = "embedded"

// Redis says where keys and limits are kept.
type Redis struct {
	// URL is embedded, or one of
	//
	//	redis://user:password@host:6379/0          one server; rediss:// for TLS
	//	unix://user:password@/path/to/socket?db=0  one server
	//	redis+cluster://user:password@host:6379?addr=host2:6379&addr=host3:6379
	//	redis+sentinel://sentinel_user:sentinel_password@host:26379/0?master_name=mymaster&username=user&password=password&addr=host2:26379
	//
	// with rediss+cluster and rediss+sentinel for TLS. The user and password
	// before the @ of a sentinel URL are the sentinels'; those of the server
	// itself are the parameters. The other parameters of go-redis are known,
	// too, but for timeouts, retries and routing, which the gateway sets.
	// Default: embedded.
	URL Secret `yaml:"url"`
	// URLFile is a file that holds url.
	URLFile string `yaml:"url_file"`
	// TLS says whom to believe and what to show. Only with rediss.
	TLS ClientTLS `yaml:"tls"`
	// ConnectTimeout is how long a connection may take to open. Duration.
	// Default: 100ms.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// Timeout is how long a call may wait: for a connection of the pool, for
	// its write, and for its read, each. Duration. Default: 50ms.
	Timeout time.Duration `yaml:"timeout"`
}

// RedisKind says which client a Redis URL asks for.
type RedisKind string

// The kinds of Redis.
const (
	RedisEmbedded RedisKind = "embedded"
	RedisSingle   RedisKind = "single"
	RedisCluster  RedisKind = "cluster"
	RedisSentinel RedisKind = "sentinel"
)

// Kind returns which client the URL asks for.
func (r Redis) Kind() RedisKind {
	scheme, _, _ := strings.Cut(r.URL.Reveal(), "://")
	switch {
	case scheme == Embedded:
		return RedisEmbedded
	case strings.HasSuffix(scheme, "+cluster"):
		return RedisCluster
	case strings.HasSuffix(scheme, "+sentinel"):
		return RedisSentinel
	}
	return RedisSingle
}

// ClientURL returns the URL in the form that go-redis's ParseURL,
// ParseClusterURL or ParseFailoverURL wants, whichever Kind says: the scheme
// without its +cluster or +sentinel. It holds the password.
func (r Redis) ClientURL() string {
	scheme, rest, _ := strings.Cut(r.URL.Reveal(), "://")
	scheme, _, _ = strings.Cut(scheme, "+")
	return scheme + "://" + rest
}

// Encrypted reports whether the URL asks for TLS.
func (r Redis) Encrypted() bool { return strings.HasPrefix(r.URL.Reveal(), "rediss") }
