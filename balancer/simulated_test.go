package balancer

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"mete/bench/sim"
)

// startSim starts a simulated vLLM.
func startSim(t *testing.T, c sim.Config) *sim.Replica {
	t.Helper()
	r, err := sim.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// TestASimulatedVLLMIsUnderstood lets the checks loose on simulated replicas of
// several kinds: new and old metrics, several engines, a key, another model.
func TestASimulatedVLLMIsUnderstood(t *testing.T) {
	profile := sim.FixedProfile(time.Hour, time.Hour, 0) // nothing ever answers
	kinds := []sim.Config{
		{Models: []string{"m"}, LoRA: []string{"tuned"}, Profile: &profile},
		{Models: []string{"m"}, OldMetrics: true, Engines: 2, APIKey: "k-123", Profile: &profile},
		{Models: []string{"other"}, Profile: &profile},
	}
	var list []string
	for _, c := range kinds {
		list = append(list, startSim(t, c).URL())
	}
	p := watchURLs(t, Options{Models: []string{"m"}, APIKey: "k-123"}, list...)
	hang(t, list[1], "k-123")
	p.await("all is known", func() bool {
		return !slices.ContainsFunc(p.Snapshot().Replicas, func(v ReplicaView) bool {
			return v.Models == nil || v.Load.KV == nil || v.Load.Running == nil
		}) && *p.Snapshot().Replicas[1].Load.Running == 1
	})
	v := p.Snapshot().Replicas
	for i, want := range []State{StateReady, StateReady, StateWrongModel} {
		if v[i].State != want {
			t.Errorf("replica %d is %s (%s), want %s", i, v[i].State, v[i].Why, want)
		}
	}
	if got := p.Adapters(); !slices.Equal(got, []string{"tuned"}) {
		t.Errorf("adapters %v, want [tuned]", got)
	}
	if *v[1].Load.Others != 1 {
		t.Errorf("others have %v on the second, want the one that we did not send", *v[1].Load.Others)
	}
	if got := chosenFirst(t, p.Pool); got != 0 {
		t.Errorf("chose replica %d, want the idle first", got)
	}
}

// hang sends a request that stays in the replica until the test ends.
func hang(t *testing.T, url, key string) {
	ctx, cancel := context.WithCancel(context.Background())
	body := strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	ended := make(chan struct{})
	client := &http.Client{Transport: &http.Transport{}}
	go func() {
		defer close(ended)
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	t.Cleanup(func() { cancel(); <-ended; client.CloseIdleConnections() })
}

func TestTheLoadHeaderOfASimulatedVLLM(t *testing.T) {
	s := startSim(t, sim.Config{})
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	for _, format := range []string{"TEXT", "JSON"} {
		body := strings.NewReader(`{"model":"sim","messages":[{"role":"user","content":"hi"}],"max_tokens":1}`)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/v1/chat/completions", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("endpoint-load-metrics-format", format)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		p := watchURLs(t, Options{}, s.URL())
		r := p.Replicas()[0]
		r.ObserveORCA([]byte(resp.Header.Get("endpoint-load-metrics")))
		if v := r.signal.view(p.clock()); v.Source == "" || v.Waiting == nil || v.KV == nil {
			t.Errorf("%s: from %q came %+v", format, resp.Header, v)
		}
	}
}

// TestAKilledReplicaIsNotChosenAgain kills one of three and wants at most one
// request to find out.
func TestAKilledReplicaIsNotChosenAgain(t *testing.T) {
	victim := startSim(t, sim.Config{})
	p := watchURLs(t, Options{}, victim.URL(), startSim(t, sim.Config{}).URL(), startSim(t, sim.Config{}).URL())
	p.await("checked", func() bool { return p.Snapshot().Replicas[0].Health.AgeMS != nil })
	victim.Kill()
	dead := p.Replicas()[0]
	found := 0
	for range 300 {
		l := mustAcquire(t, p.Pool, Need{})
		o := Success
		if l.Replica() == dead {
			o = ConnectFailed
			found++
		}
		l.Done(o)
	}
	if state, why := dead.State(); found > 1 || state != StateRefused {
		t.Errorf("%d requests found the dead replica, which is %s (%s); want one at most, refused", found, state, why)
	}
}
