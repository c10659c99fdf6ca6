package balancer

import (
	"strings"
	"testing"
)

const oneEngine = `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 90.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
`

func TestParseMetrics(t *testing.T) {
	for _, c := range []struct {
		name, page string
		want       Load
	}{
		{"one engine", oneEngine, Load{3, 2, 0.25}},
		{"engines are summed, their cache use is averaged", oneEngine + strings.ReplaceAll(oneEngine, `engine="0"`, `engine="1"`) +
			"vllm:kv_cache_usage_perc{engine=\"2\"} 1.0\n", Load{6, 4, 0.5}},
		{"the old name of the cache metric", "vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.5\n", Load{-1, -1, 0.5}},
		{"the new name counts where both are there", "vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.75\n", Load{-1, -1, 0.75}},
		{"no labels, a time stamp, no final line end", "vllm:num_requests_running 4 1700000000000\nvllm:num_requests_waiting\t1", Load{4, 1, -1}},
		{"a label value with a brace, a quote and a backslash", `vllm:num_requests_running{model_name="a} \" 9 \\"} 7` + "\n", Load{7, -1, -1}},
		{"an exponent", "vllm:num_requests_running 1.2e+01\n", Load{12, -1, -1}},
		{"CRLF", "vllm:num_requests_running 4\r\nvllm:num_requests_waiting 5\r\n", Load{4, 5, -1}},
		{"what is no number is not there", "vllm:num_requests_running NaN\nvllm:num_requests_waiting +Inf\nvllm:kv_cache_usage_perc -1\n", unsaid},
		{"labels without an end", `vllm:num_requests_running{model_name="m 7` + "\n", unsaid},
		{"nothing of vLLM's", "go_goroutines 7\n", unsaid},
		{"nothing", "", unsaid},
		{"a name cut short", "vllm:num_requests_runn", unsaid},
	} {
		if got := ParseMetrics([]byte(c.page)); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestParseORCA(t *testing.T) {
	for _, c := range []struct {
		name, header string
		want         Load
	}{
		{"text", "TEXT named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=3.0", Load{-1, 3, 0.4}},
		{"json", `JSON {"named_metrics": {"kv_cache_usage_perc": 0.4, "num_requests_waiting": 3.0}}`, Load{-1, 3, 0.4}},
		{"json without blanks", `JSON {"named_metrics":{"num_requests_waiting":12}}`, Load{-1, 12, -1}},
		{"metrics we do not know", "TEXT cpu_utilization=0.3, named_metrics.other_num_requests_waiting=3", unsaid},
		{"a longer name before the right one", "TEXT named_metrics.num_requests_waiting_x=9, named_metrics.num_requests_waiting=3", Load{-1, 3, -1}},
		{"the right name as a value", `JSON {"a": "num_requests_waiting", "num_requests_waiting": 3}`, Load{-1, 3, -1}},
		{"a use above 1", "TEXT named_metrics.kv_cache_usage_perc=2", Load{-1, -1, 1}},
		{"a binary report", "BIN AAAA", unsaid},
		{"no form", "named_metrics.num_requests_waiting=3.0", unsaid},
		{"nonsense", "TEXT named_metrics.num_requests_waiting=", unsaid},
		{"nothing", "", unsaid},
	} {
		if got := ParseORCA([]byte(c.header)); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestReadingTheLoadAllocatesNothing(t *testing.T) {
	page, text := []byte(oneEngine), []byte("TEXT named_metrics.num_requests_waiting=3.0")
	r := newPool(t, 1, Options{}).Replicas()[0]
	got := testing.AllocsPerRun(100, func() {
		ParseMetrics(page)
		r.ObserveORCA(text)
	})
	if got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}

func FuzzParseMetrics(f *testing.F) {
	f.Add([]byte(oneEngine))
	f.Add([]byte(`vllm:num_requests_running{a="\`))
	f.Add([]byte("vllm:kv_cache_usage_perc 1e300\nvllm:kv_cache_usage_perc 7"))
	f.Fuzz(func(t *testing.T, page []byte) { checkLoad(t, ParseMetrics(page)) })
}

func FuzzParseORCA(f *testing.F) {
	f.Add([]byte("TEXT named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=3.0"))
	f.Add([]byte(`JSON {"named_metrics": {"kv_cache_usage_perc": 0.4, "num_requests_waiting": 3.0}}`))
	f.Fuzz(func(t *testing.T, header []byte) { checkLoad(t, ParseORCA(header)) })
}

// checkLoad wants every number to be said and sane, or unsaid.
func checkLoad(t *testing.T, l Load) {
	for _, n := range []float64{l.Running, l.Waiting, l.KV} {
		if n != -1 && !(n >= 0 && n < 1e18) {
			t.Errorf("got %+v", l)
		}
	}
	if l.KV > 1 {
		t.Errorf("KV use %v, want at most 1", l.KV)
	}
}

func BenchmarkParseMetrics(b *testing.B) {
	page := bigPage()
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		if ParseMetrics(page).Running != 3 {
			b.Fatal("wrong")
		}
	}
}
