package consul

import (
	"context"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"mete/balancer/consul/consultest"
)

// standIn makes a rig on a stand-in that the test knows.
func standIn(t *testing.T, agent *consultest.Agent) *rig {
	t.Helper()
	backend := httptest.NewServer(agent)
	t.Cleanup(backend.Close)
	return newRig(t, &rig{standIn: agent, restart: agent.Restart}, backend.URL)
}

func TestTheGatewayIsFoundUntilItLeaves(t *testing.T) {
	onEachAgent(t, func(r *rig) {
		client, err := New(Config{Address: r.url})
		if err != nil {
			r.t.Fatal(err)
		}
		ctx, leave := context.WithCancelCause(context.Background())
		var faults atomic.Int64
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			client.Announce(ctx, Registration{
				ID: "mete-1", Name: "mete", Port: 8080, Tags: []string{"v1"}, CheckURL: "http://127.0.0.1:9/health",
			}, func(error) { faults.Add(1) })
		}()
		registered := func() bool {
			services, err := r.direct.Agent().Services()
			if err != nil { // the stand-in has no such list
				return slices.Contains(r.standIn.Services(), "mete-1")
			}
			return services["mete-1"] != nil
		}
		deadline := time.Now().Add(20 * time.Second)
		for !registered() {
			if time.Now().After(deadline) {
				r.t.Fatal("not registered after 20 s")
			}
			time.Sleep(10 * time.Millisecond) // another process: there is no event to wait for
		}
		leave(nil)
		<-gone
		if registered() {
			r.t.Error("still registered")
		}
		if n := faults.Load(); n != 0 {
			r.t.Errorf("%d troubles told, want none", n)
		}
	})
}

func TestTheRegistrationIsHandedOver(t *testing.T) {
	onEachAgent(t, func(r *rig) {
		client, err := New(Config{Address: r.url})
		if err != nil {
			r.t.Fatal(err)
		}
		ctx, leave := context.WithCancelCause(context.Background())
		var faults atomic.Int64
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			client.Announce(ctx, Registration{
				ID: "mete-1", Name: "mete", Port: 8080, Tags: []string{"v1"}, CheckURL: "http://127.0.0.1:9/health",
			}, func(error) { faults.Add(1) })
		}()
		registered := func() bool {
			services, err := r.direct.Agent().Services()
			if err != nil { // the stand-in has no such list
				return slices.Contains(r.standIn.Services(), "mete-1")
			}
			return services["mete-1"] != nil
		}
		deadline := time.Now().Add(20 * time.Second)
		for !registered() {
			if time.Now().After(deadline) {
				r.t.Fatal("not registered after 20 s")
			}
			time.Sleep(10 * time.Millisecond) // another process: there is no event to wait for
		}
		leave(ErrHandedOver)
		<-gone
		if !registered() {
			r.t.Error("the registration was not left to the successor")
		}
		if err := client.deregister(Registration{ID: "mete-1"}); err != nil {
			r.t.Error(err)
		}
		if n := faults.Load(); n != 0 {
			r.t.Errorf("%d troubles told, want none", n)
		}
	})
}

func TestAnAgentThatIsAwayIsTold(t *testing.T) {
	client, err := New(Config{Address: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancelCause(context.Background())
	told := make(chan error, 8)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		client.Announce(ctx, Registration{Name: "mete"}, func(err error) { told <- err })
	}()
	if err := <-told; err == nil {
		t.Error("told that all is well")
	}
	leave(nil)
	<-gone
	select {
	case err := <-told:
		if err == nil {
			t.Error("the failed deregistration was told as well done")
		}
	default:
		t.Error("the failed deregistration was not told")
	}
}

func TestABadConfigIsRefused(t *testing.T) {
	for _, c := range []Config{
		{Address: "gopher://127.0.0.1"},
		{Address: "https://127.0.0.1:8501", CAFile: "missing.pem"},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}
