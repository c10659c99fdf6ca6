package sim

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// The endpoints that are not inference.

const jsonType = "application/json"

func (r *Replica) health(x *exchange) error {
	if r.takeHealthFault() {
		return x.reply(http.StatusServiceUnavailable, "", nil)
	}
	return x.reply(http.StatusOK, "", nil)
}

// takeHealthFault reports whether the engine is dead. A path fault of another
// kind does not concern /health.
func (r *Replica) takeHealthFault() bool { return r.Fault().Kind == Dead }

func (r *Replica) version(x *exchange) error {
	return x.reply(http.StatusOK, jsonType, []byte(`{"version":"0.27.0+sim"}`))
}

func (r *Replica) load(x *exchange) error {
	b := strconv.AppendInt([]byte(`{"server_load":`), r.meters.inflight.Load(), 10)
	return x.reply(http.StatusOK, jsonType, append(b, '}'))
}

// models lists the served names, then the adapters with the model they extend.
func (r *Replica) models(x *exchange) error {
	b := []byte(`{"object":"list","data":[`)
	for i, name := range append(append([]string{}, r.cfg.Models...), r.cfg.LoRA...) {
		if i > 0 {
			b = append(b, ',')
		}
		root, parent, length := escape(r.cfg.Root), "null", strconv.Itoa(r.cfg.MaxModelLen)
		if i >= len(r.cfg.Models) {
			root, parent, length = "/adapters/"+escape(name), `"`+escape(r.cfg.Models[0])+`"`, "null"
		}
		b = fmt.Appendf(b, `{"id":"%s","object":"model","created":%d,"owned_by":"vllm","root":"%s","parent":%s,"max_model_len":%s,"permission":[]}`,
			escape(name), x.created, root, parent, length)
	}
	return x.reply(http.StatusOK, jsonType, append(b, "]}"...))
}

// handleSim serves the simulator's own control surface: GET, POST and DELETE
// on /sim/fault, the body of a POST being a fault in its text form.
func (r *Replica) handleSim(x *exchange) error {
	if x.req.Path != "/sim/fault" {
		return x.reply(http.StatusNotFound, jsonType, []byte(`{"detail":"Not Found"}`))
	}
	var f Fault
	switch x.req.Method {
	case http.MethodGet:
		return x.reply(http.StatusOK, "text/plain; charset=utf-8", fmt.Appendf(nil, "%+v\n", r.Fault()))
	case http.MethodPost:
		var err error
		if f, err = ParseFault(strings.TrimSpace(string(x.req.Body))); err != nil {
			return x.fail(badRequest("", err.Error()))
		}
	case http.MethodDelete:
	default:
		return x.reply(http.StatusMethodNotAllowed, jsonType, []byte(`{"detail":"Method Not Allowed"}`))
	}
	if err := r.SetFault(f); err != nil {
		return x.fail(statusError(http.StatusConflict, err.Error()))
	}
	return x.reply(http.StatusNoContent, "", nil)
}

// appendLoad adds the ORCA load report when the request asks for one, as vLLM
// writes it. vLLM adds it to whole answers; here it is on streams as well.
func (x *exchange) appendLoad(h []byte) []byte {
	format := x.req.Header("endpoint-load-metrics-format")
	if format == "" {
		return h
	}
	kv, waiting := x.r.pressure()
	switch strings.ToLower(format) {
	case "json":
		h = fmt.Appendf(h, "endpoint-load-metrics: JSON {\"named_metrics\": {\"kv_cache_usage_perc\": %s, \"num_requests_waiting\": %s}}\r\n", number(kv), number(waiting))
	case "text":
		h = fmt.Appendf(h, "endpoint-load-metrics: TEXT named_metrics.kv_cache_usage_perc=%s, named_metrics.num_requests_waiting=%s\r\n", number(kv), number(waiting))
	}
	return h
}

// pressure returns the mean KV usage and the waiting sequences of all engines.
func (r *Replica) pressure() (kv, waiting float64) {
	for _, p := range r.engines {
		l := p.load()
		kv += l.KVUsage / float64(len(r.engines))
		waiting += float64(l.Waiting)
	}
	return kv, waiting
}

// number writes a float as Python does: always with a point or an exponent.
func number(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

func fingerprint(text string) string { return hex16(xxhash.Sum64String(text)) }

func hex16(n uint64) string { return fmt.Sprintf("%016x", n) }
