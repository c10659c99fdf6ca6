package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// paramType says how the client reads a parameter of a Redis URL.
type paramType int

const (
	text paramType = iota
	number
	span
	yesNo
	address
)

var (
	// commonParams are known for every kind of Redis.
	commonParams = map[string]paramType{
		"protocol": number, "client_name": text,
		"pool_fifo": yesNo, "pool_size": number, "min_idle_conns": number, "max_idle_conns": number,
		"max_active_conns": number, "max_concurrent_dials": number, "pipeline_pool_size": number,
		"pipeline_read_buffer_size": number, "pipeline_write_buffer_size": number,
		"conn_max_idle_time": span, "conn_max_lifetime": span, "conn_max_lifetime_jitter": span,
	}
	kindParams = map[RedisKind]map[string]paramType{
		RedisSingle:   {"db": number, "skip_verify": yesNo},
		RedisCluster:  {"addr": address, "max_redirects": number, "failing_timeout_seconds": number},
		RedisSentinel: {"addr": address, "db": number, "master_name": text, "username": text, "password": text, "skip_verify": yesNo},
	}
	// ownParams are set by the gateway, or would send its scripts to servers
	// that cannot write.
	ownParams = map[string]string{
		"dial_timeout": "redis.connect_timeout", "read_timeout": "redis.timeout",
		"write_timeout": "redis.timeout", "pool_timeout": "redis.timeout",
		"max_retries": "", "min_retry_backoff": "", "max_retry_backoff": "", "dialer_retries": "",
		"dialer_retry_timeout": "", "context_timeout_enabled": "", "read_only": "", "replica_only": "",
		"route_by_latency": "", "route_by_latency_tolerance": "", "route_randomly": "",
		"use_disconnected_replicas": "",
	}
	schemes = []string{
		"redis", "rediss", "unix", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel",
	}
)

// checkRedis never quotes the URL, nor any part of it: where a password ends
// is not certain in a URL that is wrong.
func (d *document) checkRedis(r Redis) {
	path := d.given("redis.url")
	if d.broken(path) {
		return
	}
	if err := checkRedisURL(r); err != nil {
		d.fail(path, "%v", err)
		return
	}
	if !r.Encrypted() {
		d.useless("redis.tls", "write rediss for redis in the URL")
	}
}

func checkRedisURL(r Redis) error {
	raw := r.URL.Reveal()
	if raw == Embedded {
		return nil
	}
	scheme, _, found := strings.Cut(raw, "://")
	if !found || !contains(schemes, scheme) {
		return fmt.Errorf("is not a Redis URL: write embedded, or a URL that starts with one of %s://", strings.Join(schemes, "://, "))
	}
	u, err := url.Parse(raw)
	if err != nil {
		return errors.New("is not a URL: write host:port once and further servers as &addr=host:port, and / ? # @ in a password as %2F %3F %23 %40")
	}
	if u.Fragment != "" || strings.Contains(raw, "#") {
		return errors.New("has a part behind #: write # in a password as %23")
	}
	return firstOf(
		func() error { return checkRedisHost(u) },
		func() error { return checkRedisPath(u, r.Kind()) },
		func() error { return checkRedisParams(u, r.Kind()) },
	)
}

func firstOf(checks ...func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func checkRedisHost(u *url.URL) error {
	if u.Scheme == "unix" {
		if u.Host != "" || strings.Trim(u.Path, "/") == "" {
			return errors.New("names no socket: write unix:///path/to/socket, with three slashes")
		}
		return nil
	}
	if !validHost(u) {
		return errors.New("names no valid host: write host:port behind ://, and further servers as &addr=host:port")
	}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || port == 0) {
		return errors.New("has no valid port: write a number from 1 to 65535")
	}
	return nil
}

func checkRedisPath(u *url.URL, kind RedisKind) error {
	database := strings.Trim(u.Path, "/")
	switch {
	case u.Scheme == "unix" || database == "":
		return nil
	case kind == RedisCluster:
		return errors.New("names a database, which a cluster does not have: remove it")
	case !isDigits(database) || len(database) > len("99999"):
		return errors.New("has no valid database: write its number behind the host, like /0")
	}
	return nil
}

func checkRedisParams(u *url.URL, kind RedisKind) error {
	params, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return errors.New("has parameters that cannot be read: write name=value, with & between two, and % in a value as %25")
	}
	for _, name := range sortedKeys(params) {
		if err := checkRedisParam(kind, u.Scheme, name, params[name]); err != nil {
			return err
		}
	}
	if kind == RedisSentinel && params.Get("master_name") == "" {
		return errors.New("names no master: add ?master_name=NAME, as the sentinels call it")
	}
	return nil
}

func checkRedisParam(kind RedisKind, scheme, name string, values []string) error {
	if knob, own := ownParams[name]; own && knob != "" {
		return fmt.Errorf("has the parameter %s: remove it, and set %s instead", name, knob)
	} else if own {
		return fmt.Errorf("has the parameter %s, which the gateway sets itself: remove it", name)
	}
	kindOf, ok := commonParams[name]
	if !ok {
		kindOf, ok = kindParams[kind][name]
	}
	if !ok {
		known := append(sortedKeys(commonParams), sortedKeys(kindParams[kind])...)
		return fmt.Errorf("has a parameter that is not known: %s", hint(name, known))
	}
	if name == "skip_verify" && !strings.HasPrefix(scheme, "rediss") {
		return errors.New("has the parameter skip_verify without TLS: remove it, or write rediss for redis")
	}
	for _, value := range values {
		if !kindOf.reads(value) {
			return fmt.Errorf("has a value for the parameter %s that cannot be read: write %s", name, kindOf)
		}
	}
	return nil
}

// reads reports whether the client understands the value.
func (t paramType) reads(value string) bool {
	switch t {
	case number:
		_, err := strconv.Atoi(value)
		return err == nil
	case span:
		_, err := time.ParseDuration(value)
		return err == nil
	case yesNo:
		return value == "true" || value == "false"
	case address:
		host, port, err := net.SplitHostPort(value)
		return err == nil && host != "" && port != ""
	}
	return true
}

// String says how to write a value of the type.
func (t paramType) String() string {
	return [...]string{"a text", "a whole number", "a duration like 30s", "true or false", "host:port"}[t]
}
