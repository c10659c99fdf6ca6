package config

import (
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
)

// clientReads asks the client itself whether it understands the URL.
func clientReads(r Redis) error {
	var err error
	switch r.Kind() {
	case RedisSingle:
		_, err = redis.ParseURL(r.ClientURL())
	case RedisCluster:
		_, err = redis.ParseClusterURL(r.ClientURL())
	case RedisSentinel:
		_, err = redis.ParseFailoverURL(r.ClientURL())
	}
	return err
}

func TestRedisURLsThatAreAcceptedAreReadByTheClient(t *testing.T) {
	for url, want := range map[string]RedisKind{
		"embedded":                             RedisEmbedded,
		"redis://localhost":                    RedisSingle,
		"redis://user:p%40ss@host:6379/3":      RedisSingle,
		"rediss://host:6379?skip_verify=true":  RedisSingle,
		"redis://[::1]:6379?db=2&pool_size=9":  RedisSingle,
		"unix:///run/redis.sock?db=1":          RedisSingle,
		"unix://user:pw@/run/redis.sock":       RedisSingle,
		"redis+cluster://u:p@a:1?addr=b:2":     RedisCluster,
		"rediss+cluster://a:1?max_redirects=9": RedisCluster,
		"redis+sentinel://a:1/2?master_name=m": RedisSentinel,
		"rediss+sentinel://s:p@a:1?master_name=m&username=u&password=p%26w&addr=b:2&addr=c:3&skip_verify=false": RedisSentinel,
	} {
		r := Redis{URL: Secret(url)}
		if err := checkRedisURL(r); err != nil {
			t.Errorf("%s: refused: %v", url, err)
		}
		if err := clientReads(r); err != nil {
			t.Errorf("%s: the client refuses it: %v", url, err)
		}
		if r.Kind() != want {
			t.Errorf("%s: kind %s", url, r.Kind())
		}
	}
}

// Each parameter that the check knows, the client must know, for every kind.
func TestRedisParametersAreThoseOfTheClient(t *testing.T) {
	values := map[paramType]string{text: "x", number: "1", span: "1s", yesNo: "true", address: "b:2"}
	bases := map[RedisKind]string{
		RedisSingle: "rediss://a:1?", RedisCluster: "rediss+cluster://a:1?", RedisSentinel: "rediss+sentinel://a:1?master_name=m&",
	}
	for kind, base := range bases {
		for _, params := range []map[string]paramType{commonParams, kindParams[kind]} {
			for name, param := range params {
				r := Redis{URL: Secret(base + name + "=" + values[param])}
				if err := checkRedisURL(r); err != nil {
					t.Errorf("%s: refused: %v", r.URL.Reveal(), err)
				}
				if err := clientReads(r); err != nil {
					t.Errorf("%s: the client refuses it: %v", r.URL.Reveal(), err)
				}
			}
		}
	}
}

func TestRedisURLWithTLSIsKnown(t *testing.T) {
	for url, want := range map[string]bool{
		"rediss://a": true, "rediss+cluster://a": true, "redis://a": false, "redis+sentinel://a": false,
		"embedded": false, "unix:///a": false,
	} {
		if got := (Redis{URL: Secret(url)}).Encrypted(); got != want {
			t.Errorf("%s: TLS is %v", url, got)
		}
	}
}

func FuzzRedisURL(f *testing.F) {
	for _, scheme := range schemes {
		f.Add(scheme + "://u:p@a:1/0?addr=b:2&master_name=m&pool_size=1")
	}
	f.Add("embedded")
	f.Fuzz(func(t *testing.T, url string) {
		r := Redis{URL: Secret(url)}
		if checkRedisURL(r) != nil {
			return
		}
		if !slices.Contains([]RedisKind{RedisEmbedded, RedisSingle, RedisCluster, RedisSentinel}, r.Kind()) {
			t.Fatalf("%q has the kind %s", url, r.Kind())
		}
		if err := clientReads(r); err != nil {
			t.Errorf("%q is accepted, but the client refuses it: %v", url, err)
		}
	})
}
