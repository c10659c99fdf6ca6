package main

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	export "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"mete/bench/sim"
	"mete/config"
)

// collected is an OTLP receiver: what a collector would have.
type collected struct {
	*testing.T
	url string

	mu            sync.Mutex
	spans         []*otlp.Span
	resource      map[string]string
	raw           []byte // all that came
	authorization string
}

func startCollector(t *testing.T) *collected {
	c := &collected{T: t}
	server := httptest.NewServer(http.HandlerFunc(c.take))
	t.Cleanup(server.Close)
	c.url = server.URL + "/v1/traces"
	return c
}

func (c *collected) take(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(body)
	}
	b, err := io.ReadAll(body)
	var sent export.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(b, &sent)
	}
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		c.Errorf("%s %s: %v", r.URL.Path, r.Header.Get("Content-Type"), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw, c.authorization = append(c.raw, b...), r.Header.Get("Authorization")
	for _, of := range sent.GetResourceSpans() {
		c.resource = attributesOf(of.GetResource().GetAttributes())
		for _, scope := range of.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func attributesOf(list []*common.KeyValue) map[string]string {
	found := map[string]string{}
	for _, a := range list {
		text := a.GetValue().String()
		_, text, _ = strings.Cut(text, ":")
		found[a.GetKey()] = strings.Trim(text, `"`)
	}
	return found
}

// trace returns the spans of one trace by name, two of a name with a star.
func (c *collected) trace(id string) map[string]*otlp.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string]*otlp.Span{}
	for _, s := range c.spans {
		if hex.EncodeToString(s.GetTraceId()) != id {
			continue
		}
		name := s.GetName()
		for found[name] != nil {
			name += "*"
		}
		found[name] = s
	}
	return found
}

const (
	theirTrace  = "0af7651916cd43dd8448eb211c80319c"
	theirParent = "b7ad6b7169203331"
)

// traced asks with a traceparent, which is sampled.
func (s *site) traced(body string) (status int) {
	s.Helper()
	request, err := http.NewRequest(http.MethodPost, "http://"+s.api.Addr().String()+chatPath, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + poolKey, "Content-Type": "application/json",
		"traceparent": "00-" + theirTrace + "-" + theirParent + "-01", "tracestate": "congo=t61rcWkgMzE",
	} {
		request.Header.Set(name, value)
	}
	response, err := s.client.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// TestSpansOfAnExchange sends a streamed request whose first replica fails, to
// a collector that decodes what it gets.
func TestSpansOfAnExchange(t *testing.T) {
	t.Parallel()
	collector := startCollector(t)
	good, bad := startSim(t, sim.Config{}), startSim(t, sim.Config{})
	if err := bad.SetFault(sim.Fault{Kind: sim.Status, Code: 500}); err != nil {
		t.Fatal(err)
	}
	cfg := withPool(siteConfig(), func(p *config.Pool) { p.Replicas, p.BreakerFaults = []string{good.URL(), bad.URL()}, 100 })
	cfg.Trace = config.Trace{URL: collector.url, Sample: 0, Authorization: "Bearer the-collectors-token"}
	s := startSite(t, cfg)
	const secret = "what nobody may read"
	for len(collector.trace(theirTrace)) == 0 || collector.trace(theirTrace)["chat mete*"] == nil {
		collector.forget()
		if status := s.traced(`{"model":"mete","stream":true,"max_tokens":7,"messages":[{"role":"user","content":"` + secret + `"}]}`); status != 200 {
			t.Fatalf("status %d", status)
		}
		s.eventually("spans come", 20*time.Second, func() bool { return collector.trace(theirTrace)["POST /v1/chat/completions"] != nil })
	}
	spans := collector.trace(theirTrace)
	server := spans["POST /v1/chat/completions"]
	failed, answered := inOrder(spans["chat mete"], spans["chat mete*"])
	wantSpan(t, server, theirParent, otlp.Span_SPAN_KIND_SERVER, map[string]string{
		"http.request.method": "POST", "http.route": "/v1/chat/completions", "http.response.status_code": "200",
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "vllm", "gen_ai.request.model": "mete", "gen_ai.request.stream": "true",
		"gen_ai.request.max_tokens": "7", "gen_ai.usage.output_tokens": "7", "mete.owner": "tests", "mete.plan": "open", "mete.pool": "general",
	})
	if server.GetTraceState() != "congo=t61rcWkgMzE" {
		t.Errorf("tracestate %q", server.GetTraceState())
	}
	id := hex.EncodeToString(server.GetSpanId())
	wantSpan(t, failed, id, otlp.Span_SPAN_KIND_CLIENT, map[string]string{"mete.outcome": "replica_fault", "error.type": "replica_fault"})
	wantSpan(t, answered, id, otlp.Span_SPAN_KIND_CLIENT, map[string]string{"mete.outcome": "success", "server.address": "127.0.0.1", "server.port": portOf(good.Addr())})
	for _, name := range []string{"auth", "limit", "queue"} {
		wantSpan(t, spans[name], id, otlp.Span_SPAN_KIND_INTERNAL, nil)
		wantWithin(t, spans[name], server)
	}
	attempt := hex.EncodeToString(answered.GetSpanId())
	for _, name := range []string{"first_byte", "answer"} {
		wantSpan(t, spans[name], attempt, otlp.Span_SPAN_KIND_INTERNAL, nil)
		wantWithin(t, spans[name], answered)
	}
	head, _ := good.LastRequest()
	if want := "traceparent: 00-" + theirTrace + "-" + attempt + "-01\r\ntracestate: congo=t61rcWkgMzE\r\n"; !strings.Contains(string(head), want) {
		t.Errorf("the replica got\n%s, want %s", head, want)
	}
	if all := string(collector.raw); strings.Contains(all, secret) || strings.Contains(all, poolKey) {
		t.Error("a span holds the prompt or the key")
	}
	if collector.authorization != "Bearer the-collectors-token" || collector.resource["service.name"] != "mete" {
		t.Errorf("authorization %q, resource %v", collector.authorization, collector.resource)
	}
}

// forget drops what has come, for another try.
func (c *collected) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = nil
}

func inOrder(a, b *otlp.Span) (first, second *otlp.Span) {
	if a.GetStartTimeUnixNano() > b.GetStartTimeUnixNano() {
		return b, a
	}
	return a, b
}

func wantSpan(t *testing.T, s *otlp.Span, parent string, kind otlp.Span_SpanKind, attributes map[string]string) {
	t.Helper()
	if s == nil {
		t.Fatal("a span is missing")
	}
	if got := hex.EncodeToString(s.GetParentSpanId()); got != parent || s.GetKind() != kind {
		t.Errorf("%s: a %v under %s, want a %v under %s", s.GetName(), s.GetKind(), got, kind, parent)
	}
	got := attributesOf(s.GetAttributes())
	for name, want := range attributes {
		if got[name] != want {
			t.Errorf("%s: %s is %q, want %q, of %v", s.GetName(), name, got[name], want, got)
		}
	}
}

// wantWithin expects a span to lie within another, and to have a length.
func wantWithin(t *testing.T, s, outer *otlp.Span) {
	t.Helper()
	if s.GetStartTimeUnixNano() < outer.GetStartTimeUnixNano() || s.GetEndTimeUnixNano() > outer.GetEndTimeUnixNano() || s.GetStartTimeUnixNano() >= s.GetEndTimeUnixNano() {
		t.Errorf("%s lies outside of %s", s.GetName(), outer.GetName())
	}
}

// TestRefusalsAndStrangersAreTracedWithoutWhatTheySent: with every request
// traced, what callers make up appears nowhere.
func TestRefusalsAndStrangersAreTracedWithoutWhatTheySent(t *testing.T) {
	t.Parallel()
	collector := startCollector(t)
	r := startSim(t, sim.Config{})
	cfg := withPool(siteConfig(), func(p *config.Pool) { p.Replicas = []string{r.URL()} })
	cfg.Trace = config.Trace{URL: collector.url, Sample: 1}
	s := startSite(t, cfg)
	const secret = "sk-mete-made-up-by-a-caller"
	for _, c := range []struct{ method, path string }{{"GET", "/" + secret}, {"POST", "/v1/chat/completions"}, {"PURGE", "/v1/models/" + secret}, {"GET", "/v1/models"}} {
		request, _ := http.NewRequest(c.method, "http://"+s.api.Addr().String()+c.path, strings.NewReader(`{"model":"`+secret+`"}`))
		request.Header.Set("Authorization", "Bearer "+secret)
		request.Header.Set("Content-Type", "application/json")
		response, err := s.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	s.client.CloseIdleConnections()
	s.stop() // sends what waits
	var names []string
	for _, span := range collector.spans {
		if span.GetKind() == otlp.Span_SPAN_KIND_SERVER {
			names = append(names, span.GetName())
		}
		if span.GetName() == "POST /v1/chat/completions" {
			wantSpan(t, span, "", otlp.Span_SPAN_KIND_SERVER, map[string]string{"error.type": "invalid_api_key", "mete.fault": "caller", "http.response.status_code": "401"})
		}
	}
	slices.Sort(names)
	if got := strings.Join(names, ", "); got != "GET /v1/models, GET other, POST /v1/chat/completions, _OTHER /v1/models/{id}" {
		t.Errorf("got %s", got)
	}
	if strings.Contains(string(collector.raw), secret) {
		t.Error("a span holds what a caller made up")
	}
}

// TestCollectorThatIsAwayHoldsNothingUp: spans are dropped and counted, once
// the gateway stops they are not waited for, and the log says so.
func TestCollectorThatIsAwayHoldsNothingUp(t *testing.T) {
	t.Parallel()
	r := startSim(t, sim.Config{})
	cfg := withPool(siteConfig(), func(p *config.Pool) { p.Replicas = []string{r.URL()} })
	refusing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(refusing.Close)
	cfg.Trace = config.Trace{URL: refusing.URL + "/v1/traces", Sample: 1}
	s := startSite(t, cfg)
	for range 20 {
		if a := s.ask(helloBody); !a.whole() {
			t.Fatalf("%+v", a)
		}
	}
	s.stop()
	if _, failed := s.tracer.Spans(); failed == 0 {
		t.Error("no span is counted as lost")
	}
	if log := s.log.String(); !strings.Contains(log, "spans were not sent") {
		t.Errorf("the log says nothing: %.2000s", log)
	}
}

// TestExemplarsNameTheTrace, in OpenMetrics, which must be asked for.
func TestExemplarsNameTheTrace(t *testing.T) {
	t.Parallel()
	collector := startCollector(t)
	r := startSim(t, sim.Config{})
	cfg := withPool(siteConfig(), func(p *config.Pool) { p.Replicas = []string{r.URL()} })
	cfg.Trace, cfg.Metrics.NativeHistograms = config.Trace{URL: collector.url}, true
	s := startSite(t, cfg)
	if status := s.traced(`{"model":"mete","stream":true,"messages":[{"role":"user","content":"hello"}]}`); status != 200 {
		t.Fatal(status)
	}
	s.eventually("it is over", 20*time.Second, func() bool { return s.gateway.InFlight() == 0 })
	page := s.metricsPage("application/openmetrics-text; version=1.0.0")
	for _, name := range []string{"mete_request_duration_seconds", "mete_time_to_first_token_seconds"} {
		if !regexp.MustCompile(name + `_bucket\{[^}]*\} \d+ # \{trace_id="` + theirTrace + `"\}`).MatchString(page) {
			t.Errorf("%s has no exemplar", name)
		}
	}
	if plain := s.metricsPage("text/plain"); strings.Contains(plain, "trace_id") {
		t.Error("Prometheus's text form cannot hold exemplars")
	}
	// Native histograms are told in protobuf alone.
	if binary := s.metricsPage("application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=text"); !strings.Contains(binary, "positive_delta") {
		t.Error("there is no native histogram")
	}
}

func (s *site) metricsPage(accept string) string {
	s.Helper()
	request, err := http.NewRequest(http.MethodGet, "http://"+s.running.admin.Addr().String()+"/metrics", http.NoBody)
	if err != nil {
		s.Fatal(err)
	}
	request.Header.Set("Accept", accept)
	response, err := s.client.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return string(b)
}
