package load

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what a run measured. It marshals to one flat JSON object with the
// names that `vllm bench serve` uses; Fields has what more there is to say, such
// as label and model_id, under the name it will have there.
type Result struct {
	Fields     map[string]any
	Duration   time.Duration
	Counters   Counters
	Codes      map[string]int64        // outcomes: "200", other statuses, "timeout", "cut", ...
	Histograms [metrics]*hdr.Histogram // nanoseconds, by Metric
	Seconds    []int64                 // tokens of the answers that ended in each second
	Peak       int64                   // most requests in flight
	Details    []Detail                // if asked for
	goodput    bool
	open       bool // the loop
}

// Percentiles that results hold for each metric.
var percentiles = []float64{50, 90, 95, 99, 99.9}

func (r *recorder) result(o *Options, now time.Time) *Result {
	counters := r.counters()
	r.mu.Lock()
	defer r.mu.Unlock()
	result := &Result{
		Fields: map[string]any{}, Duration: now.Sub(r.began), Counters: counters,
		Codes: map[string]int64{}, Peak: r.peak, goodput: o.Goodput.Set(), open: o.Schedule != nil,
	}
	for code, n := range r.codes {
		result.Codes[code] = n
	}
	for m, h := range r.histograms {
		result.Histograms[m] = hdr.Import(h.Export())
	}
	result.Seconds = append(result.Seconds, r.seconds...)
	result.Details = append(result.Details, r.details...)
	return result
}

// Quantile returns a percentile of a metric, 0 to 100.
func (r *Result) Quantile(m Metric, percentile float64) time.Duration {
	return time.Duration(r.Histograms[m].ValueAtPercentile(percentile))
}

// Number returns a figure of the result under its name in the JSON.
func (r *Result) Number(field string) (float64, bool) {
	switch v := r.object()[field].(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	}
	return 0, false
}

// MarshalJSON writes the object that `vllm bench serve` would write.
func (r *Result) MarshalJSON() ([]byte, error) {
	object := r.object()
	object["histograms"] = r.encoded()
	if len(r.Details) > 0 {
		r.addDetails(object)
	}
	return json.Marshal(object)
}

func (r *Result) object() map[string]any {
	c, seconds := r.Counters, max(r.Duration.Seconds(), 1e-9)
	object := map[string]any{
		"date": time.Now().Format("20060102-150405"), "backend": "openai-chat", "endpoint_type": "openai-chat",
		"duration": seconds, "completed": c.Completed, "failed": c.Failed, "num_prompts": c.Sent,
		"total_input_tokens": c.PromptTokens, "total_output_tokens": c.AnswerTokens,
		"request_throughput":     float64(c.Completed) / seconds,
		"output_throughput":      float64(c.AnswerTokens) / seconds,
		"total_token_throughput": float64(c.PromptTokens+c.AnswerTokens) / seconds,
		"request_goodput":        nil, "max_concurrent_requests": r.Peak, "max_output_tokens_per_s": r.fastestSecond(),
		"errors_by_code": r.failures(), "verified": c.Verified, "mismatched": c.Mismatched,
		"unfinished": c.Sent - c.Completed - c.Failed, "bytes": c.Bytes, "events": c.Events,
	}
	if r.goodput {
		object["request_goodput"] = float64(c.Good) / seconds
		object["goodput_share"] = float64(c.Good) / float64(max(1, c.Completed+c.Failed))
	}
	for m := range metrics {
		r.addMetric(object, m)
	}
	for name, value := range r.Fields {
		object[name] = value
	}
	return object
}

func (r *Result) addMetric(object map[string]any, m Metric) {
	h := r.Histograms[m]
	name := m.String() + "_ms"
	object["mean_"+name] = h.Mean() / 1e6
	object["std_"+name] = h.StdDev() / 1e6
	object["median_"+name] = float64(h.ValueAtPercentile(50)) / 1e6
	object["max_"+name] = float64(h.Max()) / 1e6
	for _, p := range percentiles {
		object["p"+strconv.FormatFloat(p, 'f', -1, 64)+"_"+name] = float64(h.ValueAtPercentile(p)) / 1e6
	}
}

func (r *Result) fastestSecond() float64 {
	most := int64(0)
	for _, n := range r.Seconds {
		most = max(most, n)
	}
	return float64(most)
}

func (r *Result) failures() map[string]int64 {
	failures := map[string]int64{}
	for code, n := range r.Codes {
		if code != codeOK {
			failures[code] = n
		}
	}
	return failures
}

// encoded are the histograms in HdrHistogram's own form: base64 of the
// compressed V2 encoding.
func (r *Result) encoded() map[string]string {
	encoded := map[string]string{}
	for m := range metrics {
		if b, err := r.Histograms[m].Encode(hdr.V2CompressedEncodingCookieBase); err == nil {
			encoded[m.String()] = string(b)
		}
	}
	return encoded
}

// addDetails writes one value per request and list, in seconds.
func (r *Result) addDetails(object map[string]any) {
	n := len(r.Details)
	inputs, outputs, failed := make([]int, n), make([]int, n), make([]string, n)
	starts, ttfts, latencies, queues := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	itls := make([][]float64, n)
	for i, d := range r.Details {
		inputs[i], outputs[i], failed[i] = d.PromptTokens, d.AnswerTokens, d.Error
		starts[i], ttfts[i], latencies[i], queues[i] = d.Start.Seconds(), d.TTFT.Seconds(), d.Latency.Seconds(), d.Queue.Seconds()
		itls[i] = make([]float64, len(d.ITL))
		for j, itl := range d.ITL {
			itls[i][j] = itl.Seconds()
		}
	}
	object["input_lens"], object["output_lens"], object["errors"] = inputs, outputs, failed
	object["start_times"], object["ttfts"], object["itls"] = starts, ttfts, itls
	object["latencies"], object["queue_times"] = latencies, queues
}

// maxLag is how far behind its schedule an open loop may fall before it may be
// the generator that is measured, and not the server.
const maxLag = 10 * time.Millisecond

// Summary is the result as text for a terminal.
func (r *Result) Summary() string {
	c, seconds := r.Counters, max(r.Duration.Seconds(), 1e-9)
	text := fmt.Sprintf("%d requests in %.1f s: %.1f/s, %.0f tokens/s, at most %d at once\n",
		c.Completed+c.Failed, seconds, float64(c.Completed)/seconds, float64(c.AnswerTokens)/seconds, r.Peak)
	for code, n := range r.failures() {
		text += fmt.Sprintf("  failed: %6d  %s\n", n, code)
	}
	if c.Verified > 0 || c.Mismatched > 0 {
		text += fmt.Sprintf("  byte for byte as expected: %d of %d\n", c.Verified, c.Verified+c.Mismatched)
	}
	if r.goodput {
		text += fmt.Sprintf("  good: %d of %d, %.1f/s\n", c.Good, c.Completed+c.Failed, float64(c.Good)/seconds)
	}
	if lag := r.Quantile(Queue, 99); r.open && lag > maxLag {
		text += fmt.Sprintf("  requests left up to %v late (p99): the generator or its --concurrency was the bottleneck\n", lag.Round(time.Millisecond))
	}
	text += fmt.Sprintf("%-20s %10s %10s %10s %10s %10s\n", "ms", "mean", "p50", "p90", "p99", "p99.9")
	for m := range metrics {
		h := r.Histograms[m]
		if h.TotalCount() == 0 {
			continue
		}
		text += fmt.Sprintf("%-20s %10.3f", m, h.Mean()/1e6)
		for _, p := range []float64{50, 90, 99, 99.9} {
			text += fmt.Sprintf(" %10.3f", float64(h.ValueAtPercentile(p))/1e6)
		}
		text += "\n"
	}
	return text
}
