package load

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"mete/bench/sim"
)

func TestClosedLoopMeasuresStreams(t *testing.T) {
	cfg := sim.Config{OutputTokens: 20}
	target, _ := replica(t, cfg)
	r := run(t, Options{Target: target, Requests: synthetic(t, cfg, 5, 20, Shape{}), Concurrency: 8, Count: 100})
	c := r.Counters
	if c.Completed != 100 || c.Failed != 0 || c.Verified != 100 || c.Sent != 100 {
		t.Fatalf("counters %+v, codes %v", c, r.Codes)
	}
	// role, 20 pieces, the end: 22 events with choices, then usage and [DONE].
	if c.AnswerTokens != 2000 || c.Tokens != 2200 || c.Events != 2400 {
		t.Errorf("%d tokens, %d events with choices, %d events", c.AnswerTokens, c.Tokens, c.Events)
	}
	if n := r.Histograms[ITL].TotalCount(); n != 2100 {
		t.Errorf("%d intervals between events, want 21 for each request", n)
	}
	if r.Peak > 8 || r.Peak < 1 {
		t.Errorf("%d requests at once of 8 callers", r.Peak)
	}
}

func TestOpenLoopFollowsItsSchedule(t *testing.T) {
	cfg := sim.Config{}
	target, _ := replica(t, cfg)
	r := run(t, Options{Target: target, Requests: synthetic(t, cfg, 3, 4, Shape{Whole: true}), Schedule: Constant(Random(1), 500), Duration: time.Second})
	want := int64(len(until(Constant(Random(1), 500), time.Second)))
	// What was meant for the last moments may be too late on a busy machine.
	if n := r.Counters.Completed; n > want || n < want*9/10 || r.Counters.Verified != n {
		t.Errorf("%d completed of %d, codes %v", r.Counters.Completed, want, r.Codes)
	}
}

func until(s Schedule, end time.Duration) (all []time.Duration) {
	for at := range s {
		if at >= end {
			break
		}
		all = append(all, at)
	}
	return all
}

// A server that stands still for a while must show in the latencies of all the
// requests that were meant to be sent meanwhile, also when they had to wait for
// a free connection.
func TestOpenLoopCountsFromTheIntendedSending(t *testing.T) {
	cfg := sim.Config{}
	target, server := replica(t, cfg)
	if err := server.SetFault(sim.Fault{Kind: sim.Hang, Where: "headers", For: 400 * time.Millisecond, Times: 1}); err != nil {
		t.Fatal(err)
	}
	r := run(t, Options{Target: target, Requests: synthetic(t, cfg, 1, 2, Shape{}), Schedule: Constant(Even(), 100), Count: 40, Concurrency: 1})
	if r.Counters.Completed != 40 {
		t.Fatalf("codes %v", r.Codes)
	}
	if got := r.Quantile(TTFT, 50); got < 150*time.Millisecond {
		t.Errorf("the median TTFT is %v, as if the wait had not been", got)
	}
	if !strings.Contains(r.Summary(), "late (p99)") {
		t.Errorf("the summary says nothing of it:\n%s", r.Summary())
	}
	if got := r.Quantile(Queue, 50); got < 150*time.Millisecond {
		t.Errorf("the median wait in the generator is %v", got)
	}
}

func TestFailuresAreCountedByCode(t *testing.T) {
	for _, row := range []struct{ name, fault, code string }{
		{"a status", "status; code=503", "503"},
		{"an error in the stream", "error; after=2", "event:500"},
		{"a cut in the stream", "cut; at=300", codeCut},
		{"a reset before the header", "cut; at=0; of=response; how=rst", codeCut},
		{"a stream without [DONE]", "end; after=3", codeMismatch},
		{"an answer that is too late", "hang; where=event; after=1", codeTimeout},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			cfg := sim.Config{}
			target, server := replica(t, cfg)
			f, err := sim.ParseFault(row.fault)
			if err != nil {
				t.Fatal(err)
			}
			if err := server.SetFault(f); err != nil {
				t.Fatal(err)
			}
			r, err := Run(t.Context(), Options{Target: target, Requests: synthetic(t, cfg, 1, 8, Shape{}), Concurrency: 1, Count: 2, Timeout: 500 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			var n int64
			for code, count := range r.Codes {
				if strings.HasPrefix(code, row.code) {
					n += count
				}
			}
			if n != 2 || r.Counters.Failed != 2 {
				t.Errorf("codes %v, want 2 of %s", r.Codes, row.code)
			}
		})
	}
}

func TestAnotherAnswerThanExpectedIsAMismatch(t *testing.T) {
	target, _ := replica(t, sim.Config{Seed: 1})
	r := run(t, Options{Target: target, Requests: synthetic(t, sim.Config{Seed: 2}, 1, 8, Shape{}), Concurrency: 1, Count: 1})
	if r.Counters.Mismatched != 1 || r.Codes[codeMismatch] != 1 {
		t.Errorf("codes %v", r.Codes)
	}
}

func TestNobodyListensIsAFailureToConnect(t *testing.T) {
	target, server := replica(t, sim.Config{})
	_ = server.Close()
	r := run(t, Options{Target: target, Requests: synthetic(t, sim.Config{}, 1, 8, Shape{}), Concurrency: 1, Count: 2})
	if r.Codes[codeConnect] != 2 {
		t.Errorf("codes %v", r.Codes)
	}
}

func TestAConnectionClosedWhileIdleIsNoFailure(t *testing.T) {
	cfg := sim.Config{KeepAlive: time.Millisecond}
	target, _ := replica(t, cfg)
	r := run(t, Options{Target: target, Requests: synthetic(t, cfg, 1, 2, Shape{}), Schedule: Constant(Even(), 20), Count: 10})
	if r.Counters.Completed != 10 || r.Counters.Redialled == 0 {
		t.Errorf("counters %+v, codes %v", r.Counters, r.Codes)
	}
}

func TestStopLeavesUnfinishedAnswersOut(t *testing.T) {
	cfg := sim.Config{}
	target, server := replica(t, cfg)
	if err := server.SetFault(sim.Fault{Kind: sim.Hang, Where: "event", After: 3}); err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Options{Target: target, Requests: synthetic(t, cfg, 1, 8, Shape{}), Concurrency: 50})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := server.Await(ctx, func(sim.Stats) bool { return s.Counters().Events == 150 }); err != nil {
		t.Fatalf("%v: %+v", err, s.Counters())
	}
	r := s.Stop()
	if c := r.Counters; c.Completed != 0 || c.Failed != 0 || c.InFlight != 0 || c.Sent != 50 {
		t.Errorf("counters %+v", c)
	}
}

func TestResetForgetsTheWarmUp(t *testing.T) {
	cfg := sim.Config{}
	target, _ := replica(t, cfg)
	s, err := Start(t.Context(), Options{Target: target, Requests: synthetic(t, cfg, 1, 2, Shape{}), Concurrency: 1, Count: 20})
	if err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	s.Reset()
	if r := s.Wait(); r.Counters.Completed != 0 || r.Histograms[TTFT].TotalCount() != 0 || len(r.Codes) != 0 {
		t.Errorf("after a reset: %+v", r.Counters)
	}
}

func TestGoodputAndObjectives(t *testing.T) {
	cfg := sim.Config{}
	target, server := replica(t, cfg)
	if err := server.SetFault(sim.Fault{Kind: sim.Hang, Where: "headers", For: 300 * time.Millisecond, Times: 1}); err != nil {
		t.Fatal(err)
	}
	r := run(t, Options{
		Target: target, Requests: synthetic(t, cfg, 1, 2, Shape{}), Concurrency: 1, Count: 4,
		Goodput: Goodput{TTFT: 150 * time.Millisecond},
	})
	if r.Counters.Good != 3 {
		t.Errorf("%d good of 4, of which one was held up", r.Counters.Good)
	}
	for text, met := range map[string]bool{
		"goodput_share>=0.75": true, "goodput_share>=0.9": false, "failed<=0": true, "p99_ttft_ms<=100": false, "max_e2el_ms<=60000": true,
	} {
		o, err := ParseObjective(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := o.Check(r); (err == nil) != met {
			t.Errorf("%s: %v", text, err)
		}
	}
	if o, _ := ParseObjective("nonsense<=1"); o.Check(r) == nil {
		t.Error("an objective on a figure that is not there is met")
	}
}

func TestResultHasTheNamesOfVLLM(t *testing.T) {
	cfg := sim.Config{}
	target, _ := replica(t, cfg)
	r := run(t, Options{Target: target, Requests: synthetic(t, cfg, 1, 6, Shape{}), Concurrency: 2, Count: 4, Detailed: true})
	r.Fields["label"] = "x"
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"date", "backend", "endpoint_type", "label", "num_prompts", "duration", "completed", "failed", "total_input_tokens",
		"total_output_tokens", "request_throughput", "request_goodput", "output_throughput", "total_token_throughput",
		"max_output_tokens_per_s", "max_concurrent_requests", "mean_ttft_ms", "median_ttft_ms", "std_ttft_ms", "p99_ttft_ms",
		"mean_tpot_ms", "median_tpot_ms", "std_tpot_ms", "p99_tpot_ms", "mean_itl_ms", "median_itl_ms", "std_itl_ms", "p99_itl_ms",
		"mean_e2el_ms", "median_e2el_ms", "std_e2el_ms", "p99_e2el_ms", "p99.9_e2el_ms", "mean_client_queue_time_ms",
		"input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "queue_times", "errors",
	} {
		if _, ok := got[name]; !ok {
			t.Errorf("no %q", name)
		}
	}
	if itls := got["itls"].([]any); len(itls) != 4 || len(itls[0].([]any)) != 7 {
		t.Errorf("itls %v", itls)
	}
}
