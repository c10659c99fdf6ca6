package sim

import (
	"errors"
	"net/http"
	"strings"
	"time"
)

// handle answers one request. An error means that the connection is of no
// more use.
func (r *Replica) handle(x *exchange) error {
	r.meters.active.Add(1)
	defer r.meters.active.Add(-1)
	r.meters.request(x.req)
	if r.cfg.Observe != nil {
		r.cfg.Observe(x.req)
	}
	if strings.HasPrefix(x.req.Path, "/sim/") {
		return r.handleSim(x)
	}
	if script := r.script.Load(); script != nil && x.req.Method == http.MethodPost {
		if err := (*script)(x.req, x.conn); !errors.Is(err, ErrPass) {
			return err
		}
	}
	if r.cfg.APIKey != "" && strings.HasPrefix(x.req.Path, "/v1") && x.req.Header("authorization") != "Bearer "+r.cfg.APIKey {
		return x.fail(statusError(http.StatusUnauthorized, "Unauthorized"))
	}
	route, known := r.route(x.req)
	switch {
	case !known:
		return x.reply(http.StatusNotFound, "application/json", []byte(`{"detail":"Not Found"}`))
	case route == nil:
		return x.reply(http.StatusMethodNotAllowed, "application/json", []byte(`{"detail":"Method Not Allowed"}`))
	}
	if x.req.Method != http.MethodPost {
		if answered, err := x.meetFault(); answered || err != nil {
			return err
		}
	}
	return route(x)
}

// meetFault concerns the endpoints without inference: a fault reaches them by
// header, or at run time when it names their path.
func (x *exchange) meetFault() (answered bool, err error) {
	if x.req.Header("x-sim-fault") == "" && x.r.Fault().Path != x.req.Path {
		return false, nil
	}
	if err := x.armFault(); err != nil {
		return true, x.fail(badRequest("sim_fault", err.Error()))
	}
	return x.beforeHead()
}

// route finds the handler; it is nil, true for a known path that is asked for
// with another method.
func (r *Replica) route(req *Request) (handler func(*exchange) error, known bool) {
	method := http.MethodGet
	switch req.Path {
	case "/health", "/ping":
		handler = r.health
	case "/metrics":
		handler = r.metrics
	case "/load":
		handler = r.load
	case "/version":
		handler = r.version
	case "/v1/models":
		handler = r.models
	default:
		if strings.HasPrefix(req.Path, "/v1/responses/") {
			handler = r.storedResponse
			break
		}
		method, handler = http.MethodPost, r.inferenceRoute(req.Path)
	}
	if handler == nil {
		return nil, false
	}
	if req.Method != method && (method != http.MethodGet || req.Method != http.MethodHead) && req.Path != "/ping" {
		return nil, true
	}
	return handler, true
}

func (r *Replica) inferenceRoute(path string) func(*exchange) error {
	switch path {
	case "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages":
		return r.generate
	case "/v1/embeddings", "/pooling", "/classify", "/score", "/v1/score", "/rerank", "/v1/rerank", "/v2/rerank":
		return r.pool
	case "/tokenize", "/detokenize":
		return r.tokenize
	}
	return nil
}

// prepare does what every inference endpoint does first: faults, the body,
// the model. It returns nil, and the error to return, when that answered.
func (r *Replica) prepare(x *exchange) (*call, error) {
	if err := x.armFault(); err != nil {
		return nil, x.fail(badRequest("sim_fault", err.Error()))
	}
	if !strings.HasPrefix(strings.ToLower(x.req.Header("content-type")), "application/json") {
		return nil, x.fail(badRequest("", "Unsupported Media Type: Only 'application/json' is allowed"))
	}
	q, bad := parseCall(x.req.Path, x.req.Body)
	if bad != nil {
		return nil, x.fail(bad)
	}
	if x.fault.Kind == NoFault && q.fault != "" {
		f, err := ParseFault(q.fault)
		if err != nil {
			return nil, x.fail(badRequest("sim_fault", err.Error()))
		}
		x.fault = f
	}
	if handled, err := x.beforeHead(); handled || err != nil {
		r.meters.spoiled(err)
		return nil, err
	}
	if bad := r.cfg.bound(q); bad != nil {
		return nil, x.fail(bad)
	}
	return q, nil
}

// armFault takes the fault from the header, or else the one set at run time.
// A fault in the body comes after both.
func (x *exchange) armFault() (err error) {
	if text := x.req.Header("x-sim-fault"); text != "" {
		x.fault, err = ParseFault(text)
		return err
	}
	x.fault = x.r.takeFault(x.req.Path)
	return nil
}

// generate serves the four endpoints that produce text.
func (r *Replica) generate(x *exchange) error {
	q, err := r.prepare(x)
	if q == nil {
		return err
	}
	if bad := r.store.resolve(q); bad != nil {
		return x.fail(bad)
	}
	if x.id == "" {
		x.id = r.newID()
	}
	d, answers, u := x.compose(q)
	t, admitted := r.admit(x, q, answers)
	if !admitted {
		return r.refuse(x, d, q)
	}
	defer t.release()
	if q.stream {
		err = x.sendStream(d, answers, u, t)
	} else {
		err = x.sendWhole(d, answers, u, t)
	}
	r.meters.settle(x, answers, t, err)
	return err
}

// compose makes the answers and the dialect in which they are written.
func (x *exchange) compose(q *call) (dialect, []answer, usage) {
	var answers []answer
	var u usage
	for i := range q.prompts {
		q.maxTokens = q.limits[i]
		u.prompt += q.counts[i]
		for range q.n {
			answers = append(answers, x.cfg.answer(q, len(answers)))
		}
	}
	return newDialect(x, q, u), answers, u
}

func newDialect(x *exchange, q *call, u usage) dialect {
	switch q.path {
	case "/v1/completions":
		return newCompletions(x, q)
	case "/v1/responses":
		return newResponses(x, q)
	case "/v1/messages":
		return newMessages(x, q, u)
	}
	return newChat(x, q)
}

// refuse answers a request for which the queue has no room.
func (r *Replica) refuse(x *exchange, d dialect, q *call) error {
	r.meters.refused.Add(1)
	e := queueFull(r.cfg.MaxQueued)
	if !q.stream || !r.cfg.RefuseEvent {
		return x.fail(e)
	}
	if err := x.start(http.StatusOK, eventStream, -1); err != nil {
		return err
	}
	if err := d.failure(x, e); err != nil {
		return err
	}
	return x.end()
}

const eventStream = "text/event-stream; charset=utf-8"

// sendStream sends the header at once, as vLLM does, and the events when the
// engine has produced them.
func (x *exchange) sendStream(d dialect, answers []answer, u usage, t *ticket) error {
	if err := x.start(http.StatusOK, eventStream, -1); err != nil {
		return err
	}
	err := x.beforeFirst()
	if err == nil {
		err = x.stream(d, answers, u, t)
	}
	switch {
	case errors.Is(err, errInject):
		e := x.fault.apiError(x.cfg.MaxQueued)
		x.fault = Fault{}
		x.faulted = true
		if err := d.failure(x, e); err != nil {
			return err
		}
		return x.end()
	case errors.Is(err, errEnd):
		x.faulted = true
		return x.end()
	}
	return err
}

// sendWhole waits for the last token and sends one body. A replica that is
// closing answers with what it has.
func (x *exchange) sendWhole(d dialect, answers []answer, u usage, t *ticket) error {
	if k := x.fault.Kind; k == Error || k == QueueFull || k == End {
		x.faulted = true
		return x.failShaped(x.fault.apiError(x.cfg.MaxQueued), x.fault.Shape)
	}
	var ended error // errClosing when an answer is cut short
	for i := range answers {
		a := &answers[i]
		if x.fault.Kind == Abort {
			a.pieces, a.finish = a.pieces[:min(x.fault.After, len(a.pieces))], "abort"
		}
		for t.ready(i) < len(a.pieces) {
			if err := t.wait(); errors.Is(err, errClosing) {
				a.pieces, a.finish, ended = a.pieces[:t.ready(i)], "abort", err
			} else if err != nil {
				return err
			}
		}
		u.completion += len(a.pieces)
	}
	u.cached = t.cached()
	if err := x.reply(http.StatusOK, "application/json", d.whole(nil, answers, u)); err != nil {
		return err
	}
	x.complete = true
	return ended
}

// newID stands for the random id that vLLM makes up when the client sends none.
func (r *Replica) newID() string {
	return hex16(mix(r.cfg.Seed^uint64(time.Now().UnixNano())) ^ r.meters.ids.Add(1))
}
