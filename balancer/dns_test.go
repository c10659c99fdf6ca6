package balancer

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestEveryAddressOfANameIsAReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var addrs []netip.Addr
		var fault error
		p := newPool(t, 0, Options{})
		faults := 0
		d := &DNS{
			URL:     "http://vllm.svc:8000",
			Publish: func(e []Endpoint) error { return p.Publish("dns", e) },
			OnError: func(error) { faults++ },
			Lookup: func(context.Context, string) ([]netip.Addr, error) {
				mu.Lock()
				defer mu.Unlock()
				return addrs, fault
			},
		}
		ctx, stop := context.WithCancel(t.Context())
		go d.Run(ctx)
		say := func(err error, list ...string) {
			mu.Lock()
			defer mu.Unlock()
			addrs, fault = nil, err
			for _, a := range list {
				addrs = append(addrs, netip.MustParseAddr(a))
			}
		}
		want := func(what string, ids ...string) {
			t.Helper()
			time.Sleep(2 * resolveEvery)
			synctest.Wait()
			rs := p.Replicas()
			if len(rs) != len(ids) {
				t.Fatalf("%s: %d replicas, want %v", what, len(rs), ids)
			}
			for i, r := range rs {
				if r.ID != ids[i] || r.Host != "vllm.svc:8000" {
					t.Errorf("%s: got %s, host %s; want %s", what, r.ID, r.Host, ids[i])
				}
			}
		}
		want("nothing yet")
		say(nil, "10.0.0.2", "::ffff:10.0.0.1", "fd00::1")
		want("three", "10.0.0.1:8000", "10.0.0.2:8000", "[fd00::1]:8000")
		say(nil, "fd00::1", "10.0.0.3", "10.0.0.1")
		want("one was replaced", "10.0.0.1:8000", "10.0.0.3:8000", "[fd00::1]:8000")
		say(errors.New("no such host"))
		want("an error", "10.0.0.1:8000", "10.0.0.3:8000", "[fd00::1]:8000")
		if faults == 0 {
			t.Error("the error was not told")
		}
		say(nil)
		want("none", "10.0.0.1:8000", "10.0.0.3:8000", "[fd00::1]:8000")
		stop()
		synctest.Wait()
	})
}
