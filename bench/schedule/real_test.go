package schedule

import (
	"testing"
	"time"

	"mete/bench/sim"
)

// TestARealServerGetsTheSimulatedRequests sends chats to a server of bench/sim:
// as many as are simulated, with prompts of the same length and beginning.
func TestARealServerGetsTheSimulatedRequests(t *testing.T) {
	s := setup(t, "multi-turn", Mete, 20)
	s.Replicas, s.Warm, s.Window = 1, 500*time.Millisecond, 1500*time.Millisecond
	r, err := sim.Start(sim.Config{MaxModelLen: 131072, Profile: &s.Profile, Details: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	simulated := run(t, s)
	sent, err := RunReal(t.Context(), s, Target{URL: r.URL() + "/v1", Model: "sim", Keys: []string{"none"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("simulated %+v\nreal %+v", simulated, sent)
	if sent.Requests < simulated.Requests/2 || sent.Requests > 2*simulated.Requests || sent.Finished == 0 || sent.TTFT.P50 == 0 {
		t.Errorf("%d requests, %d finished; simulated %d and %d", sent.Requests, sent.Finished, simulated.Requests, simulated.Finished)
	}
	if n := sim.CountTokens(words(7, 1000)); n < 1000 || n > 1010 {
		t.Errorf("1000 words are %d tokens", n)
	}
}
