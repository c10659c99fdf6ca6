package sim

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// responses is the dialect of /v1/responses: named events, one message.
type responses struct {
	r    *Replica // nil while rendering
	id   string
	text string // sent so far
	seq  int
	made int64
	name string
}

func newResponses(x *exchange, q *call) *responses {
	return &responses{r: x.r, id: "resp_" + x.id, made: x.created, name: escape(x.cfg.answerModel(q.model))}
}

func (d *responses) open(x *exchange, _ int) error {
	if err := d.event(x, "response.created", `"response":`+string(d.object(nil, "in_progress", "", usage{}))); err != nil {
		return err
	}
	item := `"output_index":0,"item":{"id":"msg_` + d.id + `","type":"message","role":"assistant","status":"in_progress","content":[]}`
	if err := d.event(x, "response.output_item.added", item); err != nil {
		return err
	}
	return d.event(x, "response.content_part.added", d.part()+`,"part":{"type":"output_text","text":"","annotations":[]}`)
}

func (d *responses) piece(x *exchange, _ int, p piece, _ usage) error {
	if p.kind != content {
		return d.event(x, "response.reasoning_text.delta", d.part()+`,"delta":"`+p.json+`"`)
	}
	d.text += p.text
	return d.event(x, "response.output_text.delta", d.part()+`,"delta":"`+p.json+`"`)
}

func (d *responses) close(x *exchange, _ int, _ *answer) error {
	if err := d.event(x, "response.output_text.done", d.part()+`,"text":"`+escape(d.text)+`"`); err != nil {
		return err
	}
	return d.event(x, "response.output_item.done", `"output_index":0,"item":`+d.message(d.text))
}

func (d *responses) end(x *exchange, u usage) error {
	body := d.object(nil, "completed", d.text, u)
	d.keep(body)
	return d.event(x, "response.completed", `"response":`+string(body))
}

func (d *responses) failure(x *exchange, e *apiError) error {
	return d.event(x, "error", `"code":"server_error","message":"`+escape(e.message)+`","param":null`)
}

func (d *responses) whole(b []byte, answers []answer, u usage) []byte {
	b = d.object(b, "completed", answers[0].text(content), u)
	d.keep(b)
	return b
}

func (d *responses) part() string {
	return `"item_id":"msg_` + d.id + `","output_index":0,"content_index":0`
}

func (d *responses) event(x *exchange, name, members string) error {
	b := fmt.Appendf(x.begin(), "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%d,%s}\n\n", name, name, d.seq, members)
	d.seq++
	return x.event(b)
}

func (d *responses) message(text string) string {
	return `{"id":"msg_` + d.id + `","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"` +
		escape(text) + `","annotations":[]}]}`
}

func (d *responses) object(b []byte, status, text string, u usage) []byte {
	output := ""
	if status == "completed" {
		output = d.message(text)
	}
	return fmt.Appendf(b, `{"id":"%s","object":"response","created_at":%d,"status":"%s","model":"%s","output":[%s],"usage":{"input_tokens":%d,"output_tokens":%d,"total_tokens":%d}}`,
		d.id, d.made, status, d.name, output, u.prompt, u.completion, u.prompt+u.completion)
}

func (d *responses) keep(body []byte) {
	if d.r != nil {
		d.r.store.put(d.id, body)
	}
}

// responseStore holds the last responses of this replica, and of no other: a
// conversation that goes on by previous_response_id must come back here.
type responseStore struct {
	mu    sync.Mutex
	byID  map[string][]byte
	order []string
}

const storedResponses = 1000

func (s *responseStore) put(id string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string][]byte{}
	}
	s.byID[id] = append([]byte(nil), body...)
	if s.order = append(s.order, id); len(s.order) > storedResponses {
		delete(s.byID, s.order[0])
		s.order = s.order[1:]
	}
}

func (s *responseStore) get(id string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, ok := s.byID[id]
	return body, ok
}

// resolve refuses a call that goes on from a response which is not here.
func (s *responseStore) resolve(q *call) *apiError {
	if q.path != "/v1/responses" || q.previous == "" {
		return nil
	}
	if _, ok := s.get(q.previous); !ok {
		return &apiError{http.StatusNotFound, "invalid_request_error", "response_id", "Response with id '" + q.previous + "' not found."}
	}
	return nil
}

func (r *Replica) storedResponse(x *exchange) error {
	id := strings.TrimPrefix(x.req.Path, "/v1/responses/")
	body, ok := r.store.get(id)
	if !ok {
		return x.fail(&apiError{http.StatusNotFound, "invalid_request_error", "response_id", "Response with id '" + id + "' not found."})
	}
	return x.reply(http.StatusOK, jsonType, body)
}
