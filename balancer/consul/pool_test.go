package consul

import (
	"context"
	"sync"
	"testing"
	"time"

	"mete/balancer"
	"mete/balancer/consul/consultest"
)

// TestNoRequestFailsWhileConsulIsInTrouble leases without a break while Consul
// goes through every kind of trouble.
func TestNoRequestFailsWhileConsulIsInTrouble(t *testing.T) {
	t.Parallel()
	onEachAgent(t, func(r *rig) {
		pool, err := balancer.NewPool("general", nil, balancer.Options{})
		if err != nil {
			r.t.Fatal(err)
		}
		r.putAll("1", "2", "3", "4")
		l := r.watch(func(w *Watch) {
			w.wait = time.Second
			publish := w.Publish
			w.Publish = func(list []balancer.Endpoint) error {
				if err := pool.Publish("consul", list); err != nil {
					return err
				}
				return publish(list) // told last: then the pool has it
			}
		})
		l.want("the first list", "1 2 3 4", soon)
		ctx, stop := context.WithCancel(context.Background())
		var leasing sync.WaitGroup
		leases, failed := 0, 0
		leasing.Go(func() {
			for ctx.Err() == nil {
				lease, err := pool.Acquire(context.Background(), balancer.Need{})
				if err != nil {
					failed++
				}
				leases++
				lease.Done(balancer.Success)
				time.Sleep(100 * time.Microsecond) // requests at their own rate
			}
		})
		for _, m := range []consultest.Mode{
			consultest.Fails, consultest.Empty, consultest.Broken, consultest.Behind, consultest.Half, consultest.Hangs,
		} {
			r.faults.Set(m)
			l.until("queries in trouble", 30*time.Second, func() bool { return r.faults.Served() >= 2 })
		}
		r.restart()
		r.faults.Set(consultest.Fine)
		l.until("a query after the restart", 30*time.Second, func() bool { return r.faults.Served() >= 1 })
		r.putAll("1", "2", "3", "4", "5")
		l.want("well again", "1 2 3 4 5", 30*time.Second)
		stop()
		leasing.Wait()
		if failed != 0 || leases == 0 {
			r.t.Errorf("%d of %d leases failed, want none", failed, leases)
		}
		r.t.Logf("%d leases, none failed", leases)
	})
}
