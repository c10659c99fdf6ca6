package proxy

import (
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"

	"mete/bench/sim"
	"mete/config"
	"mete/proxy/trace"
)

// line is the last line of the log, once no exchange is under way.
func (r *rig) line() map[string]any {
	r.Helper()
	r.awaitIdle()
	lines := strings.Split(strings.TrimSpace(r.log.String()), "\n")
	var fields map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &fields); err != nil {
		r.Fatalf("%v in %q", err, lines)
	}
	return fields
}

// TestTheLineHasWhatOneAsksForAtNight: each kind of exchange, and what its line
// must say beside id and took_us. An empty text stands for anything.
func TestTheLineHasWhatOneAsksForAtNight(t *testing.T) {
	who := map[string]any{"key": "", "owner": "test", "plan": "all", "model": "mete", "pool": "general"}
	with := func(more map[string]any) map[string]any {
		for name, value := range who {
			more[name] = value
		}
		return more
	}
	for name, c := range map[string]struct {
		body   string
		header []string
		script func(n int, c net.Conn) error
		want   map[string]any
		not    []string
	}{
		"a stream": {body: streamBody, want: with(map[string]any{
			"level": "info", "status": 200., "stream": true, "replica": "", "attempts": 1., "choice": "ready", "of": 1., "in_flight": 1., "outcome": "success", "limit_us": "", "queue_us": "",
			"connect_us": "", "first_byte_us": "", "prompt_tokens": "", "completion_tokens": "", "bytes": "", "path": "/v1/chat/completions",
		}), not: []string{"fault", "code", "failure", "trace_id"}},
		"an answer of the second replica": {body: chatBody, script: failFirst, want: with(map[string]any{
			"level": "info", "status": 200., "attempts": 2., "failed": "", "failure": "replica answered with status 500", "outcome": "success",
		})},
		"a caller's trace": {body: chatBody, header: []string{"traceparent", callersParent}, want: with(map[string]any{
			"status": 200., "trace_id": callersParent[3:35],
		})},
		"a key that is none": {body: chatBody, header: []string{"Authorization", "Bearer sk-mete-x"}, want: map[string]any{
			"level": "info", "status": 401., "fault": "caller", "code": "invalid_api_key",
		}, not: []string{"key", "owner", "replica", "model"}},
		"a field that the plan forbids": {body: `{"model":"mete","priority":1,"messages":[{"role":"user","content":"hello"}]}`, want: with(map[string]any{
			"level": "info", "status": 400., "fault": "caller", "code": "field_not_allowed", "limit_us": "",
		}), not: []string{"replica"}},
	} {
		t.Run(name, func(t *testing.T) {
			var options []rigOption
			if c.script != nil {
				n := 0
				options = append(options, withReplicas(2, sim.Config{Script: func(_ *sim.Request, conn net.Conn) error { n++; return c.script(n, conn) }}))
			}
			r := newRig(t, options...)
			_, _ = io.Copy(io.Discard, r.post("/v1/chat/completions", c.body, c.header...).Body)
			line := r.line()
			for field, want := range c.want {
				if got, ok := line[field]; !ok || want != "" && got != want {
					t.Errorf("%s is %v, want %v", field, got, want)
				}
			}
			for _, field := range append(c.not, "prompt", "message") {
				if got, ok := line[field]; ok {
					t.Errorf("it says %s: %v", field, got)
				}
			}
			if line["id"] == nil || line["took_us"] == nil || t.Failed() {
				t.Errorf("%v", line)
			}
		})
	}
}

func failFirst(n int, c net.Conn) error {
	if n == 1 {
		_, err := io.WriteString(c, "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n")
		return err
	}
	return answering(jsonWire("{}"))(nil, c)
}

// TestOnlySuccessesAreSampled: with a sample of nought, what went well is not
// logged, and everything else is.
func TestOnlySuccessesAreSampled(t *testing.T) {
	r := newRig(t, withConfig(func(cfg *config.Config) { cfg.Log.Sample = 0 }))
	for range 5 {
		readBody(t, r.post("/v1/chat/completions", chatBody))
	}
	r.awaitIdle()
	if text := r.log.String(); text != "" {
		t.Errorf("logged: %s", text)
	}
	for range 5 {
		readBody(t, r.post("/v1/chat/completions", strings.Replace(chatBody, "mete", "nobody", 1)))
	}
	r.awaitIdle()
	if n := strings.Count(r.log.String(), "model_not_found"); n != 5 {
		t.Errorf("%d refusals of 5 are logged", n)
	}
}

// TestTracedSuccessesAreAlwaysLogged, so that a trace leads to its line.
func TestTracedSuccessesAreAlwaysLogged(t *testing.T) {
	x := &exchange{table: &table{config: config.Default()}}
	x.table.config.Log.Sample = 0
	if x.picked() {
		t.Error("picked without a trace")
	}
	if x.trace = (trace.Context{Sampled: true}); !x.picked() {
		t.Error("not picked with one")
	}
}
