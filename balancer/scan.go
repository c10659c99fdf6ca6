package balancer

import (
	"bytes"
	"strconv"
)

// ParseMetrics finds the load in a page of /metrics in Prometheus' text format.
// Requests are summed over the engines, and the KV use is their mean. It
// allocates nothing and keeps nothing of page.
func ParseMetrics(page []byte) Load {
	var running, waiting, kv, oldKV sample
	for len(page) > 0 {
		line := page
		if end := bytes.IndexByte(page, '\n'); end >= 0 {
			line, page = page[:end], page[end+1:]
		} else {
			page = nil
		}
		name, ok := bytes.CutPrefix(line, []byte("vllm:"))
		if !ok {
			continue
		}
		running.scan(name, "num_requests_running")
		waiting.scan(name, "num_requests_waiting")
		kv.scan(name, "kv_cache_usage_perc")
		oldKV.scan(name, "gpu_cache_usage_perc") // vLLM before 2025-11
	}
	if kv.n == 0 {
		kv = oldKV
	}
	return Load{Running: running.total(), Waiting: waiting.total(), KV: kv.mean()}
}

// ParseORCA finds the load in the value of vLLM's ORCA header, such as
//
//	TEXT named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=3.0
//	JSON {"named_metrics": {"kv_cache_usage_perc": 0.4, "num_requests_waiting": 3.0}}
//
// It allocates nothing and keeps nothing of header.
func ParseORCA(header []byte) Load {
	load := unsaid
	text := bytes.HasPrefix(header, []byte("TEXT "))
	if !text && !bytes.HasPrefix(header, []byte("JSON ")) {
		return load
	}
	load.Waiting = named(header, "num_requests_waiting", text)
	load.KV = min(named(header, "kv_cache_usage_perc", text), 1)
	return load
}

// sample adds up the values of one metric.
type sample struct {
	sum float64
	n   int
}

// scan takes the value from a line, less its "vllm:", if it is of the metric.
func (s *sample) scan(line []byte, metric string) {
	if len(line) <= len(metric) || string(line[:len(metric)]) != metric {
		return
	}
	rest := line[len(metric):]
	if rest[0] == '{' {
		rest = afterLabels(rest)
	} else if rest[0] != ' ' && rest[0] != '\t' {
		return // a longer name
	}
	if v, ok := number(rest); ok {
		s.sum += v
		s.n++
	}
}

func (s *sample) total() float64 {
	if s.n == 0 {
		return -1
	}
	return s.sum
}

func (s *sample) mean() float64 {
	if s.n == 0 {
		return -1
	}
	return min(s.sum/float64(s.n), 1)
}

// afterLabels returns what follows the closing brace, which may also stand
// inside a quoted value.
func afterLabels(b []byte) []byte {
	quoted := false
	for i := 0; i < len(b); i++ {
		switch {
		case quoted && b[i] == '\\':
			i++
		case b[i] == '"':
			quoted = !quoted
		case b[i] == '}' && !quoted:
			return b[i+1:]
		}
	}
	return nil
}

// named finds a member of the ORCA header, or -1.
func named(header []byte, name string, text bool) float64 {
	for {
		at := bytes.Index(header, []byte(name))
		if at < 0 {
			return -1
		}
		before, rest := header[:at], header[at+len(name):]
		header = rest
		var ok bool
		if text {
			rest, ok = bytes.CutPrefix(rest, []byte("="))
			ok = ok && bytes.HasSuffix(before, []byte("named_metrics."))
		} else if rest, ok = bytes.CutPrefix(rest, []byte(`"`)); ok {
			rest, ok = bytes.CutPrefix(bytes.TrimLeft(rest, " "), []byte(":"))
			ok = ok && bytes.HasSuffix(before, []byte(`"`))
		}
		if !ok {
			continue
		}
		if v, valid := number(rest); valid {
			return v
		}
	}
}

// number reads the first field of b: finite and not below 0, or it is no number.
func number(b []byte) (float64, bool) {
	b = bytes.TrimLeft(b, " \t")
	end := 0
	for end < len(b) && end < 32 && isNumeric(b[end]) {
		end++
	}
	v, err := strconv.ParseFloat(string(b[:end]), 64)
	return v, err == nil && v >= 0 && v <= 1e12
}

func isNumeric(c byte) bool {
	return c >= '0' && c <= '9' || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E'
}
