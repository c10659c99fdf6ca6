package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"mete/bench/sim"
	"mete/config"
)

// withOnePlace puts one replica behind the gateway, which gets one request at a
// time; what the plan says of waiting can be changed.
func withOnePlace(change func(*config.Plan)) rigOption {
	profile := sim.FixedProfile(time.Hour, time.Hour, 0) // nothing ends by itself
	replicas := withReplicas(1, sim.Config{Profile: &profile})
	return func(cfg *config.Config, r *rig) {
		replicas(cfg, r)
		r.balancing.MaxInFlight = 1
		plan := config.DefaultPlan()
		change(&plan)
		cfg.Plans["all"] = plan
	}
}

// sent is a request that is under way.
type sent struct {
	leave context.CancelFunc
	ended chan int // its status; 0 if it left
}

func (r *rig) send() sent {
	ctx, cancel := context.WithCancel(context.Background())
	s := sent{cancel, make(chan int, 1)}
	request := r.request("/v1/chat/completions", streamBody).WithContext(ctx)
	go func() {
		response, err := r.client.Do(request)
		if err != nil {
			s.ended <- 0
			return
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		s.ended <- response.StatusCode
	}()
	r.Cleanup(cancel)
	return s
}

// awaitWaiting waits until so many requests wait in the gateway.
func (r *rig) awaitWaiting(n int) {
	r.Helper()
	pool := r.gateway.table.Load().models["mete"].pool
	for end := time.Now().Add(10 * time.Second); pool.QueueLength() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("%d wait, want %d", pool.QueueLength(), n)
		}
	}
}

func (r *rig) awaitRunning(n int) {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.replicas[0].Await(ctx, func(s sim.Stats) bool { return s.Running+s.Waiting == n }); err != nil {
		r.Fatalf("the replica has %+v, want %d", r.replicas[0].Stats(), n)
	}
}

// TestWhoWaitsIsServedWhenAPlaceIsFree and leaves the queue at once when its
// client leaves.
func TestWhoWaitsIsServedWhenAPlaceIsFree(t *testing.T) {
	r := newRig(t, withOnePlace(func(*config.Plan) {}))
	first := r.send()
	r.awaitRunning(1)
	second, third := r.send(), r.send()
	r.awaitWaiting(2)
	if view := r.gateway.table.Load().models["mete"].pool.Queue(9); view.Waiting[0].Caller != "test" || view.Waiting[1].Position != 2 {
		t.Errorf("the view shows %+v", view.Waiting)
	}
	third.leave()
	r.awaitWaiting(1)
	first.leave()
	r.awaitWaiting(0)
	r.awaitRunning(1) // the second
	reached := int64(0)
	for _, n := range r.replicas[0].Stats().Requests {
		reached += n
	}
	if reached > 2 {
		t.Errorf("%d requests reached the replica, want 2 at most", reached)
	}
	second.leave()
	for _, s := range []sent{first, second, third} {
		<-s.ended
	}
	r.awaitIdle()
}

func TestWhoWaitsTooLongIsToldWhenToComeAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*config.Plan)
	}{
		{"at once, by its plan", func(p *config.Plan) { p.QueuePolicy = config.QueueRefuses }},
		{"at the end of its wait", func(p *config.Plan) { p.QueueWait = 50 * time.Millisecond }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, withOnePlace(c.change))
			first := r.send()
			r.awaitRunning(1)
			response := r.post("/v1/chat/completions", chatBody)
			wantError(t, response, http.StatusServiceUnavailable, "replicas_busy", "")
			if response.Header.Get("retry-after") == "" || response.Header.Get("x-should-retry") != "" {
				t.Errorf("the header is %v", response.Header)
			}
			first.leave()
			<-first.ended
			r.awaitIdle()
			if !strings.Contains(r.log.String(), `"replicas_busy"`) {
				t.Error("the log does not say so")
			}
		})
	}
}
