package proxy

import (
	"strings"
	"testing"
)

const (
	callersParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	callersState  = "congo=t61rcWkgMzE"
)

// TestTraceContextIsPassedOnIfItIsValid, with tracing off: replicas may trace
// all the same.
func TestTraceContextIsPassedOnIfItIsValid(t *testing.T) {
	for name, c := range map[string]struct {
		fields string
		want   string // field lines that the replica gets
	}{
		"both":                      {"traceparent: " + callersParent + "\r\ntracestate: " + callersState + "\r\n", "traceparent: " + callersParent + "\r\ntracestate: " + callersState + "\r\n"},
		"no state":                  {"Traceparent: " + callersParent + "\r\n", "traceparent: " + callersParent + "\r\n"},
		"two states":                {"traceparent: " + callersParent + "\r\ntracestate: a=1\r\ntracestate: b=2\r\n", "traceparent: " + callersParent + "\r\ntracestate: a=1,b=2\r\n"},
		"two parents":               {"traceparent: " + callersParent + "\r\ntraceparent: " + callersParent + "\r\ntracestate: a=1\r\n", ""},
		"a parent that is not one":  {"traceparent: b\xff\x80 \t c\r\ntracestate: a=1\r\n", ""},
		"a state that is not ASCII": {"traceparent: " + callersParent + "\r\ntracestate: a=\xff\r\n", "traceparent: " + callersParent + "\r\n"},
		"a state that is too long":  {"traceparent: " + callersParent + "\r\ntracestate: a=" + strings.Repeat("b", 600) + "\r\n", "traceparent: " + callersParent + "\r\n"},
		"a state alone":             {"tracestate: a=1\r\n", ""},
		"a later version":           {"traceparent: 01" + callersParent[2:] + "-more\r\n", "traceparent: " + callersParent + "\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			client := r.open(strings.Replace(postWire("/v1/chat/completions", chatBody), "Host: x\r\n", "Host: x\r\n"+c.fields, 1))
			if response := client.answer("POST"); response.StatusCode != 200 {
				t.Errorf("status %d", response.StatusCode)
			}
			head, _ := r.replicas[0].LastRequest()
			var got strings.Builder
			for _, line := range strings.SplitAfter(string(head), "\r\n") {
				if strings.HasPrefix(strings.ToLower(line), "trace") {
					got.WriteString(line)
				}
			}
			if got.String() != c.want {
				t.Errorf("the replica got %q, want %q", got.String(), c.want)
			}
		})
	}
}
