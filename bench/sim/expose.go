package sim

import (
	"fmt"
	"net/http"
	"strconv"
)

// metrics writes the exposition page with vLLM's names, labels and number
// format. One series per engine where vLLM has one.
func (r *Replica) metrics(x *exchange) error {
	p := page{model: escape(r.cfg.Models[0])}
	loads := r.loads()
	usage := "vllm:kv_cache_usage_perc"
	if r.cfg.OldMetrics {
		usage = "vllm:gpu_cache_usage_perc"
	}
	p.perEngine("vllm:num_requests_running", "gauge", "Number of requests in model execution batches.", loads, func(l Load) float64 { return float64(l.Running) })
	p.perEngine("vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.", loads, func(l Load) float64 { return float64(l.Waiting) })
	p.waitingByReason(loads)
	p.perEngine(usage, "gauge", "KV-cache usage. 1 means 100 percent usage.", loads, func(l Load) float64 { return l.KVUsage })
	p.perEngine("vllm:engine_sleep_state_awake", "gauge", "Engine awake state.", loads, func(Load) float64 { return 1 })
	p.perEngine("vllm:prefix_cache_queries_total", "counter", "Prefix cache queries, in terms of number of queried tokens.", loads, func(l Load) float64 { return float64(l.PrefixQueries) })
	p.perEngine("vllm:prefix_cache_hits_total", "counter", "Prefix cache hits, in terms of number of cached tokens.", loads, func(l Load) float64 { return float64(l.PrefixHits) })
	p.perEngine("vllm:num_preemptions_total", "counter", "Cumulative number of preemption from the engine.", loads, func(l Load) float64 { return float64(l.Preemptions) })
	p.perEngine("vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.", loads, func(l Load) float64 { return float64(l.PromptTokens) })
	p.perEngine("vllm:generation_tokens_total", "counter", "Number of generation tokens processed.", loads, func(l Load) float64 { return float64(l.OutputTokens) })
	p.outcomes(r.Stats())
	p.histogram("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", &r.meters.firstToken)
	p.histogram("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", &r.meters.queueTime)
	p.histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", &r.meters.whole)
	p.cacheConfig(r)
	p.adapters(r)
	return x.reply(http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", p.b)
}

// loads returns what each engine says; in instant mode one engine in which
// everything admitted runs.
func (r *Replica) loads() []Load {
	if len(r.engines) == 0 {
		m := &r.meters
		return []Load{{Running: int(m.inflight.Load()), PromptTokens: m.prompts.Load(), OutputTokens: m.generated.Load()}}
	}
	var loads []Load
	for _, p := range r.engines {
		loads = append(loads, p.load())
	}
	return loads
}

// page is a metrics page under construction.
type page struct {
	b     []byte
	model string
}

func (p *page) head(name, kind, help string) {
	p.b = fmt.Appendf(p.b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (p *page) perEngine(name, kind, help string, loads []Load, value func(Load) float64) {
	p.head(name, kind, help)
	for i, l := range loads {
		p.b = fmt.Appendf(p.b, "%s{engine=\"%d\",model_name=\"%s\"} %s\n", name, i, p.model, number(value(l)))
	}
}

func (p *page) waitingByReason(loads []Load) {
	const name = "vllm:num_requests_waiting_by_reason"
	p.head(name, "gauge", "Number of requests waiting, by reason.")
	for i, l := range loads {
		p.b = fmt.Appendf(p.b, "%s{engine=\"%d\",model_name=\"%s\",reason=\"capacity\"} %s\n", name, i, p.model, number(float64(l.Waiting)))
		p.b = fmt.Appendf(p.b, "%s{engine=\"%d\",model_name=\"%s\",reason=\"deferred\"} 0.0\n", name, i, p.model)
	}
}

// outcomes are counted for the whole replica and shown on engine 0.
func (p *page) outcomes(s Stats) {
	const name = "vllm:request_success_total"
	p.head(name, "counter", "Count of successfully processed requests.")
	for _, reason := range []string{"stop", "length", "tool_calls", "abort"} {
		p.b = fmt.Appendf(p.b, "%s{engine=\"0\",finished_reason=\"%s\",model_name=\"%s\"} %s\n", name, reason, p.model, number(float64(s.Finish[reason])))
	}
	p.head("sim:requests_aborted_total", "counter", "Requests whose client left, or that a closing replica ended.")
	p.b = fmt.Appendf(p.b, "sim:requests_aborted_total %s\n", number(float64(s.Aborted)))
	p.head("sim:requests_refused_total", "counter", "Requests refused by a full queue.")
	p.b = fmt.Appendf(p.b, "sim:requests_refused_total %s\n", number(float64(s.Refused)))
}

func (p *page) histogram(name, help string, h *histogram) {
	p.head(name, "histogram", help)
	h.mu.Lock()
	defer h.mu.Unlock()
	var total int64
	for i := 0; i <= len(h.bounds); i++ {
		le := "+Inf"
		if i < len(h.bounds) {
			le = number(h.bounds[i])
		}
		if h.counts != nil {
			total += h.counts[i]
		}
		p.b = fmt.Appendf(p.b, "%s_bucket{engine=\"0\",le=\"%s\",model_name=\"%s\"} %s\n", name, le, p.model, number(float64(total)))
	}
	p.b = fmt.Appendf(p.b, "%s_count{engine=\"0\",model_name=\"%s\"} %s\n", name, p.model, number(float64(h.n)))
	p.b = fmt.Appendf(p.b, "%s_sum{engine=\"0\",model_name=\"%s\"} %s\n", name, p.model, number(h.sum))
}

func (p *page) cacheConfig(r *Replica) {
	size, blocks, reuse := 16, 0, false
	if len(r.engines) > 0 {
		size, blocks, reuse = r.profile.BlockSize, r.profile.Blocks, !r.profile.NoPrefixReuse
	}
	p.head("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
	for i := range max(1, len(r.engines)) {
		p.b = fmt.Appendf(p.b, "vllm:cache_config_info{block_size=\"%d\",cache_dtype=\"auto\",enable_prefix_caching=\"%s\",engine=\"%d\",num_gpu_blocks=\"%d\"} 1.0\n",
			size, pythonBool(reuse), i, blocks)
	}
}

func (p *page) adapters(r *Replica) {
	if len(r.cfg.LoRA) == 0 {
		return
	}
	p.head("vllm:lora_requests_info", "gauge", "Running stats on lora requests.")
	p.b = fmt.Appendf(p.b, "vllm:lora_requests_info{max_lora=\"%s\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"} %s\n",
		strconv.Itoa(len(r.cfg.LoRA)), number(float64(r.started.Unix())))
}

func pythonBool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}
