package limits

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"mete/auth/redistest"
	"mete/config"
)

// tryLimits shows that keys, limits, slots and usage work on a store.
func tryLimits(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	r := newRig(t, rdb, plan(requests(2, time.Hour), concurrent(5)), func(o *Options) { o.Flush = 5 * time.Millisecond })
	for _, owner := range []string{"ann", "bob", "cid", "dan"} { // in different slots
		key := r.key(owner)
		for range 2 {
			g := r.mustTake(key, 1)
			if g.Degraded {
				t.Fatal("decided without Redis")
			}
			g.Settle(Usage{Prompt: 1})
		}
		if _, err := r.take(key, 1); err == nil {
			t.Fatal("a third request was let in")
		}
		r.settled()
		if got := r.left(key, Concurrent); got != 5 {
			t.Fatalf("%d slots are left", got)
		}
	}
	eventually(t, "usage is recorded", func() bool {
		rows, err := r.Usage(t.Context(), UsageFilter{})
		return err == nil && len(rows) == 4 && rows[3].Requests == 2
	})
}

func open(t *testing.T, c config.Redis) redis.UniversalClient {
	t.Helper()
	rdb, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// patient has a URL and times that a busy machine does not reach.
func patient(url string) config.Redis {
	return config.Redis{URL: config.Secret(url), ConnectTimeout: 10 * time.Second, Timeout: 10 * time.Second}
}

func TestLimitsWorkOnEveryKindOfRedis(t *testing.T) {
	t.Run("embedded", func(t *testing.T) { tryLimits(t, open(t, config.Redis{URL: config.Embedded})) })
	t.Run("a user with a password", func(t *testing.T) {
		s := redistest.Start(t)
		command("acl", "setuser", "gateway", "on", ">pass", "~mete:*", "+@all", "-@dangerous", "+info")(t, s)
		tryLimits(t, open(t, patient("redis://gateway:pass@"+s.Addr()+"/0")))
	})
	t.Run("unix socket", func(t *testing.T) {
		dir, err := os.MkdirTemp("", "mete") // t.TempDir may be too long for a socket
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		redistest.Start(t, "--unixsocket", filepath.Join(dir, "s"))
		tryLimits(t, open(t, patient("unix://"+filepath.Join(dir, "s")+"?db=1")))
	})
	t.Run("TLS", func(t *testing.T) {
		files, args := tlsFiles(t)
		port := freeAddr(t)
		_, number, _ := net.SplitHostPort(port)
		redistest.Start(t, append(args, "--tls-port", number, "--tls-auth-clients", "yes")...)
		c := patient("rediss://" + port)
		c.TLS = files
		tryLimits(t, open(t, c))
		for what, change := range map[string]func(*config.ClientTLS){
			"a server that nobody vouches for": func(f *config.ClientTLS) { f.CAFile = "" },
			"a server with another name":       func(f *config.ClientTLS) { f.ServerName = "other.internal" },
			"a client without a certificate":   func(f *config.ClientTLS) { f.CertFile, f.KeyFile = "", "" },
		} {
			c := patient("rediss://" + port)
			c.TLS = files
			change(&c.TLS)
			if err := open(t, c).Ping(t.Context()).Err(); err == nil {
				t.Errorf("%s was believed", what)
			}
		}
	})
	t.Run("cluster", func(t *testing.T) { tryLimits(t, open(t, patient(clusterURL(t)))) })
}

func TestOpenNamesNoSecret(t *testing.T) {
	for _, url := range []string{
		"redis://user:hunter2@host:6379/notanumber", "redis+cluster://user:hunter2@host:6379?max_redirects=x",
		"redis+sentinel://user:hunter2@host:6379/x?master_name=m", "http://user:hunter2@host",
	} {
		if _, err := Open(config.Redis{URL: config.Secret(url)}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(config.Redis{URL: "rediss://host:1", TLS: config.ClientTLS{CAFile: empty}}); err == nil {
		t.Error("an empty file of authorities was taken")
	}
}

func TestEmbeddedStoreKeepsTime(t *testing.T) {
	rdb := open(t, config.Redis{URL: config.Embedded})
	if err := rdb.Set(t.Context(), "k", "v", 30*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it expires", func() bool { return rdb.Exists(t.Context(), "k").Val() == 0 })
	first := rdb.Time(t.Context()).Val()
	eventually(t, "its clock runs", func() bool { return rdb.Time(t.Context()).Val().After(first) })
}

func TestAPolicyThatEvictsIsWarnedOf(t *testing.T) {
	s := redistest.Start(t)
	for policy, want := range map[string]string{"noeviction": "", "allkeys-lru": "keys", "volatile-ttl": "windows"} {
		configure("maxmemory-policy", policy)(t, s)
		got := CheckPolicy(t.Context(), s.Client())
		if !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q", policy, got)
		}
	}
	if got := CheckPolicy(t.Context(), redistest.Embedded(t)); got != "" {
		t.Errorf("embedded: %q", got)
	}
}

// The primary dies, a sentinel makes the replica the primary: requests go on
// meanwhile, and the limits go on counting on the new one.
func TestAFailoverLosesNothing(t *testing.T) {
	t.Parallel() // it mostly waits
	primary := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	replica := redistest.Start(t)
	host, port, _ := net.SplitHostPort(primary.Addr())
	command("replicaof", host, port)(t, replica)
	p := plan(requests(1e6, time.Hour))
	maker := newRig(t, primary.Client(), p)
	key := maker.key("ann")
	maker.mustTake(key, 1).Settle(Usage{})
	maker.Close(t.Context())
	eventually(t, "the replica has it all", func() bool {
		return primary.Client().Do(t.Context(), "wait", 1, 1000).Val() == int64(1)
	})
	sentinel := startSentinel(t, host, port)
	r := newRig(t, openFor(t, "redis+sentinel://"+sentinel+"/0?master_name=pool"), p, impatient)
	eventually(t, "the key is known", func() bool { g, err := r.take(key, 1); return err == nil && !g.Degraded })
	eventually(t, "the sentinel knows the replica", func() bool {
		return strings.Contains(sentinelSays(t, sentinel, "replicas"), replica.Addr())
	})
	before := r.left(key, Requests)
	primary.Client().Do(t.Context(), "wait", 1, 1000)
	primary.Kill()
	taken := int64(0)
	eventually(t, "the replica has taken over", func() bool {
		g := r.mustTake(key, 1)
		taken++
		return !g.Degraded && r.up.Load()
	})
	if got := r.left(key, Requests); got > before-taken || got < before-2*taken {
		t.Errorf("%d were left, %d let in, %d are left", before, taken, got)
	}
	if n := replica.Client().HLen(t.Context(), "mete:{ann}:windows:p").Val(); n == 0 {
		t.Error("the new primary has no windows")
	}
}

func startSentinel(t *testing.T, host, port string) (addr string) {
	t.Helper()
	addr = freeAddr(t)
	_, own, _ := net.SplitHostPort(addr)
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\nsentinel monitor pool %s %s 1\nsentinel down-after-milliseconds pool 300\nsentinel failover-timeout pool 3000\n", own, host, port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("redis-server", file, "--sentinel")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	eventually(t, "the sentinel runs", func() bool { return strings.Contains(sentinelSays(t, addr, "masters"), port) })
	return addr
}

func sentinelSays(t *testing.T, addr, what string) string {
	rdb := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2})
	defer rdb.Close()
	args := []any{"sentinel", what}
	if what == "replicas" {
		args = append(args, "pool")
	}
	said, _ := rdb.Do(t.Context(), args...).Result()
	return fmt.Sprint(said)
}

// clusterURL starts a cluster of three.
func clusterURL(t *testing.T) string {
	t.Helper()
	var nodes []*redistest.Server
	for range 3 {
		nodes = append(nodes, redistest.Start(t, "--cluster-enabled", "yes"))
	}
	slots := []int{0, 5461, 10922, 16384}
	for i, n := range nodes {
		command("cluster", "addslotsrange", slots[i], slots[i+1]-1)(t, n)
		command("config", "set", "cluster-node-timeout", "60000")(t, n)
		host, port, _ := net.SplitHostPort(n.Addr())
		command("cluster", "meet", host, port)(t, nodes[0])
	}
	for _, n := range nodes {
		rdb := n.Client()
		eventually(t, "the cluster is whole", func() bool {
			info := rdb.ClusterInfo(context.Background()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3") && strings.Contains(info, "cluster_slots_ok:16384")
		})
	}
	return "redis+cluster://" + nodes[0].Addr() + "?addr=" + nodes[1].Addr()
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// tlsFiles makes a certificate that vouches for itself, and the server's
// arguments for it.
func tlsFiles(t *testing.T) (files config.ClientTLS, args []string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis for a test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, content := range map[string][]byte{"cert": ca, "key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, keyFile := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	return config.ClientTLS{CAFile: cert, CertFile: cert, KeyFile: keyFile},
		[]string{"--tls-cert-file", cert, "--tls-key-file", keyFile, "--tls-ca-cert-file", cert}
}
