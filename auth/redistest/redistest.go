package redistest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Each runs a test twice, on the embedded store and on a real server. Both are
// empty, belong to the test alone, and end with it.
func Each(t *testing.T, run func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { run(t, Embedded(t)) })
	t.Run("real", func(t *testing.T) { run(t, Start(t).Client()) })
}

// Embedded starts an embedded store and returns a client of it.
func Embedded(t testing.TB) redis.UniversalClient {
	t.Helper()
	store, err := miniredis.Run()
	if err != nil {
		t.Fatalf("embedded store: %v", err)
	}
	t.Cleanup(store.Close)
	return client(t, store.Addr())
}

// Cluster starts a cluster of one node that holds all slots, and returns a
// client of it. One node suffices to refuse what reaches over slots.
func Cluster(t testing.TB) redis.UniversalClient {
	t.Helper()
	s := Start(t, "--cluster-enabled", "yes")
	node := s.Client()
	if err := node.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err(); err != nil {
		t.Fatalf("cluster slots: %v", err)
	}
	deadline := time.Now().Add(startTimeout)
	for !strings.Contains(node.ClusterInfo(t.Context()).Val(), "cluster_state:ok") {
		if time.Now().After(deadline) {
			t.Fatal("the cluster does not come up")
		}
		time.Sleep(20 * time.Millisecond) // a node has no event for this
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{s.Addr()}, MaxRedirects: 3, DialTimeout: 10 * time.Second,
		ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// client has time-outs that a busy machine does not reach, and never repeats
// a command, so that a test sees what the server did.
func client(t testing.TB, addr string) redis.UniversalClient {
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs:                 []string{addr},
		MaxRetries:            -1,
		DialerRetries:         1,
		DialTimeout:           10 * time.Second,
		ReadTimeout:           30 * time.Second,
		WriteTimeout:          30 * time.Second,
		ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func binary(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("redis-server is not on PATH, and CI=true asks for it")
	}
	t.Skip("SKIPPED: redis-server is not on PATH; this test ran on the embedded store at most")
	return ""
}
