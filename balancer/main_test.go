package balancer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(serveFleet) != "" {
		fleet()
		return
	}
	goleak.VerifyTestMain(m)
}

// newPool makes a pool of n replicas whose random choices depend on seed alone.
func newPool(t testing.TB, n int, o Options) *Pool {
	t.Helper()
	p, err := NewPool("general", Static(urls(n)), o)
	if err != nil {
		t.Fatal(err)
	}
	p.random = rand.New(rand.NewPCG(1, 2)).Uint64
	return p
}

func urls(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("http://10.0.%d.%d:8000", i/256, i%256)
	}
	return list
}

func mustAcquire(t testing.TB, p *Pool, need Need) *Lease {
	t.Helper()
	l, err := p.Acquire(context.Background(), need)
	if err != nil {
		t.Fatal(err)
	}
	return &l
}
