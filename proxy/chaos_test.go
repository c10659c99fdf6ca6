package proxy

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"mete/bench/sim"
	"mete/config"
)

// TestNothingIsLostInChaos lets clients ask for every fault and leave at any
// time, while the replicas are forgotten again and again. In the end all that
// was taken must be back.
func TestNothingIsLostInChaos(t *testing.T) {
	r := newRig(t, withReplicas(2, sim.Config{}), withConfig(func(cfg *config.Config) {
		cfg.Plans["all"] = config.Plan{DefaultTokens: 1000, Limits: []config.Limit{{Concurrent: 10_000}, {Tokens: 1 << 40, Per: time.Hour}}}
	}))
	length := 3 * time.Second
	if *long {
		length = time.Minute
	}
	ctx, stop := context.WithTimeout(context.Background(), length)
	defer stop()
	var work sync.WaitGroup
	for range 40 {
		work.Go(func() {
			for ctx.Err() == nil {
				r.askInChaos(ctx)
			}
		})
	}
	work.Go(func() { r.forgetUntil(ctx) })
	work.Wait()
	r.client.CloseIdleConnections()
	_, _, running := r.charged()
	r.wantNoLeases()
	if held := r.gateway.bodies.held.Load(); running != 0 || held != 0 {
		t.Errorf("%d requests run still, and bodies hold %d bytes", running, held)
	}
	r.wantCounted("panics_total", map[string]float64{})
	for _, outcome := range []string{"success", "client_left", "replica_fault", "caller_error", "queue_full"} {
		if r.counted("attempts_total")[outcome+" general"] == 0 {
			t.Errorf("no attempt ended with %s", outcome)
		}
	}
	if log := r.log.String(); strings.Contains(log, `"panic"`) || strings.Contains(log, "internal_error") {
		t.Error("the gateway made a mistake: it is in the log")
	}
}

// askInChaos sends a request of any size that asks for any fault. Every other
// client leaves within 20 ms.
func (r *rig) askInChaos(ctx context.Context) {
	faults := []string{"", "", "", "status; code=500", "status; code=400", "queue_full", "error; after=0",
		"cut; at=1500", "cut; at=0", "cut; at=40", "error; after=4", "abort; after=3"}
	sizes := []int{10, 100, 9_000, 100_000}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	if rand.IntN(2) == 0 {
		time.AfterFunc(time.Duration(rand.IntN(20_000))*time.Microsecond, leave)
	}
	body := fmt.Sprintf(`{"sim_fault":%q,"model":"mete","stream":%v,"messages":[{"role":"user","content":%q}]}`,
		faults[rand.IntN(len(faults))], rand.IntN(2) == 0, strings.Repeat("ab ", sizes[rand.IntN(len(sizes))]/3))
	response, err := r.client.Do(r.request("/v1/chat/completions", body).WithContext(ctx))
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if response.StatusCode == http.StatusInternalServerError && response.Header.Get("x-request-id") == "" {
		r.Error("a 500 without an id")
	}
}

func (r *rig) forgetUntil(ctx context.Context) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		for _, replica := range r.gateway.table.Load().models["mete"].pool.Replicas() {
			r.gateway.Forget(replica)
		}
		<-tick.C
	}
}
