package sim

import "fmt"

// Render returns the body that a replica with this Config sends for a request,
// de-chunked, so that a test can compare bytes or hashes. path is a generating
// endpoint; id is the X-Request-Id that reaches the replica. Config.Created
// must be set, because a body holds the time, and usage details must be off
// unless the KV cache is known to be cold.
func Render(cfg Config, path, id string, body []byte) ([]byte, error) {
	cfg = cfg.withDefaults()
	q, bad := parseCall(path, body)
	if bad == nil {
		bad = cfg.bound(q)
	}
	if bad != nil {
		return nil, fmt.Errorf("render: %w", bad)
	}
	x := &exchange{cfg: &cfg, req: &Request{minor: 1}, id: id, created: cfg.Created}
	d, answers, u := x.compose(q)
	if !q.stream {
		for i := range answers {
			u.completion += len(answers[i].pieces)
		}
		return d.whole(nil, answers, u), nil
	}
	if err := x.stream(d, answers, u, &ticket{}); err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}
	return x.out, nil
}

// Text returns the content that a client puts together from the answer to
// this request: choice 0, without reasoning and tool calls.
func Text(cfg Config, path string, body []byte) (string, error) {
	cfg = cfg.withDefaults()
	q, bad := parseCall(path, body)
	if bad == nil {
		bad = cfg.bound(q)
	}
	if bad != nil {
		return "", fmt.Errorf("text: %w", bad)
	}
	q.maxTokens = q.limits[0]
	a := cfg.answer(q, 0)
	return a.text(content), nil
}
