package overhead

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"mete/auth"
)

// gatewayConfig has everything switched on: static and stored keys on a real
// Redis, three windows and a bound on concurrency, metrics. What is said of an
// access log and of traces follows.
const gatewayConfig = `service: mete
listen: {api: "%[1]s", admin: "%[2]s"}
redis: {url: "redis://%[3]s/0", connect_timeout: 2s, timeout: 2s}
keystore:
  peppers: [{version: 1, secret: "%[4]s"}]
models:
  - {id: sim, pool: replicas, created: 2026-01-15, context_window: 4000000}
pools:
  replicas: {replicas: [%[5]s]}
plans:
  bench:
    limits:
      - {requests: 100000000, per: 1m}
      - {tokens: 100000000000, per: 1m}
      - {tokens: 1000000000000, per: 24h}
      - {concurrent: 20000}
keys:
  - {name: static, plan: bench, sha256: "%[6]s"}
timeouts: {connect: 5s}
shutdown: {lame_duck: 0s, drain: 1s}
`

// accessLog logs every exchange to a file of that name.
func (l *lab) accessLog(name string) string {
	return fmt.Sprintf("log: {level: info, format: json, file: %q}\n", filepath.Join(l.dir, name+".log"))
}

// openRedis starts a Redis that keeps nothing.
func (l *lab) openRedis(ctx context.Context) error {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return fmt.Errorf("the gateway is measured with a real Redis: %w", err)
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	host, port, _ := net.SplitHostPort(address)
	p, err := l.launch(ctx, "redis", l.rest, address, "redis-server", "--bind", host, "--port", port,
		"--save", "", "--appendonly", "no", "--dir", l.dir)
	if err != nil {
		return err
	}
	p.aside = true
	l.redis = address
	l.note(exec.Command("redis-server", "--version"))
	return nil
}

// fewKeys are the callers of everything but the big case.
const fewKeys = 64

// makeKeys makes a static key and the stored ones, each of another owner.
func (l *lab) makeKeys(ctx context.Context) error {
	pepper := secret()
	peppers, err := auth.NewPeppers(auth.Pepper{Version: 1, Secret: []byte(pepper)})
	if err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: l.redis})
	defer func() { _ = rdb.Close() }()
	store := auth.NewStore(rdb, gate, peppers)
	if _, err := store.Mark(ctx); err != nil {
		return err
	}
	l.pepper, l.static = pepper, "sk-mete-"+secret()[:40]
	l.keys, err = createKeys(ctx, store, l.o.Keys)
	l.few = append([]string{l.static}, l.keys[:min(len(l.keys), fewKeys)]...)
	return err
}

func createKeys(ctx context.Context, store *auth.Store, n int) ([]string, error) {
	keys := make([]string, n)
	const makers = 32
	var failed [makers]error
	var all sync.WaitGroup
	for m := range makers {
		all.Go(func() {
			for i := m; i < n && failed[m] == nil; i += makers {
				owner := fmt.Sprintf("bench-%06d", i)
				keys[i], _, failed[m] = store.Create(ctx, auth.Request{Name: owner, Owner: owner, Plan: "bench", Origin: auth.FromCLI})
			}
		})
	}
	all.Wait()
	for _, err := range failed {
		if err != nil {
			return nil, fmt.Errorf("keys: %w", err)
		}
	}
	return keys, nil
}

func secret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func (l *lab) openGateway(ctx context.Context) error {
	p, err := l.startGateway(ctx, gate, l.replicas, l.accessLog(gate))
	if err != nil {
		return err
	}
	l.proxies = append(l.proxies, p)
	return nil
}

// startGateway starts a gateway in front of the replicas. What it observes is
// said in YAML.
func (l *lab) startGateway(ctx context.Context, name string, replicas []string, observes string) (*Proxy, error) {
	api, err := freeAddress()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddress()
	if err != nil {
		return nil, err
	}
	urls := `"http://` + strings.Join(replicas, `", "http://`) + `"`
	path, err := l.write(name+".yaml", fmt.Sprintf(gatewayConfig, api, admin, l.redis, l.pepper, urls, auth.Hash([]byte(l.static)).Hex())+observes)
	if err != nil {
		return nil, err
	}
	argv := append(append([]string{}, l.o.Command...), "serve", "--config", path)
	p, err := l.launch(ctx, name, l.proxy, api, argv...)
	if err != nil {
		return nil, err
	}
	made := l.newProxy(name, api, p)
	made.admin = admin
	return made, nil
}
