package sim

import "fmt"

// messages is the dialect of /v1/messages, Anthropic's form of a chat.
type messages struct {
	id     string
	name   string
	prompt int
	block  int  // index of the open content block
	inside kind // what the open block holds
}

func newMessages(x *exchange, q *call, u usage) *messages {
	return &messages{id: "chatcmpl-" + x.id, name: escape(x.cfg.answerModel(q.model)), prompt: u.prompt, block: -1}
}

func (d *messages) open(x *exchange, _ int) error {
	return d.event(x, "message_start", fmt.Sprintf(`"message":{"id":"%s","type":"message","role":"assistant","content":[],"model":"%s","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":%d,"output_tokens":0}}`,
		d.id, d.name, d.prompt))
}

func (d *messages) piece(x *exchange, _ int, p piece, _ usage) error {
	if p.kind == toolName {
		return d.startBlock(x, toolArgs, `{"type":"tool_use","id":"`+toolID(d.id, 0)+`","name":"`+p.json+`","input":{}}`)
	}
	if d.block < 0 || d.inside != p.kind {
		start := `{"type":"text","text":""}`
		if p.kind == reasoning {
			start = `{"type":"thinking","thinking":""}`
		}
		if err := d.startBlock(x, p.kind, start); err != nil {
			return err
		}
	}
	delta := map[kind]string{content: `"type":"text_delta","text"`, reasoning: `"type":"thinking_delta","thinking"`, toolArgs: `"type":"input_json_delta","partial_json"`}[p.kind]
	return d.event(x, "content_block_delta", fmt.Sprintf(`"index":%d,"delta":{%s:"%s"}`, d.block, delta, p.json))
}

func (d *messages) close(x *exchange, _ int, a *answer) error {
	if err := d.endBlock(x); err != nil {
		return err
	}
	return d.event(x, "message_delta", fmt.Sprintf(`"delta":{"stop_reason":"%s","stop_sequence":null},"usage":{"input_tokens":%d,"output_tokens":%d}`,
		stopReason(a), d.prompt, len(a.pieces)))
}

func (d *messages) end(x *exchange, _ usage) error {
	return x.event(append(x.begin(), "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...))
}

func (d *messages) failure(x *exchange, e *apiError) error {
	return d.event(x, "error", `"error":{"type":"internal_error","message":"`+escape(e.message)+`"}`)
}

func (d *messages) whole(b []byte, answers []answer, u usage) []byte {
	a := &answers[0]
	blocks := ""
	if thought := a.text(reasoning); thought != "" {
		blocks = `{"type":"thinking","thinking":"` + escape(thought) + `"},`
	}
	if name := a.text(toolName); name != "" {
		blocks += `{"type":"tool_use","id":"` + toolID(d.id, 0) + `","name":"` + escape(name) + `","input":` + objectOr(a.text(toolArgs)) + `}`
	} else {
		blocks += `{"type":"text","text":"` + escape(a.text(content)) + `"}`
	}
	return fmt.Appendf(b, `{"id":"%s","type":"message","role":"assistant","content":[%s],"model":"%s","stop_reason":"%s","stop_sequence":null,"usage":{"input_tokens":%d,"output_tokens":%d}}`,
		d.id, blocks, d.name, stopReason(a), u.prompt, u.completion)
}

// objectOr keeps the answer valid when max_tokens has cut the arguments short.
func objectOr(arguments string) string {
	if arguments == "" || arguments[len(arguments)-1] != '}' {
		return "{}"
	}
	return arguments
}

func (d *messages) startBlock(x *exchange, k kind, start string) error {
	if err := d.endBlock(x); err != nil {
		return err
	}
	d.block++
	d.inside = k
	return d.event(x, "content_block_start", fmt.Sprintf(`"index":%d,"content_block":%s`, d.block, start))
}

func (d *messages) endBlock(x *exchange) error {
	if d.block < 0 {
		return nil
	}
	return d.event(x, "content_block_stop", fmt.Sprintf(`"index":%d`, d.block))
}

func (d *messages) event(x *exchange, name, members string) error {
	return x.event(fmt.Appendf(x.begin(), "event: %s\ndata: {\"type\":\"%s\",%s}\n\n", name, name, members))
}

func stopReason(a *answer) string {
	switch a.finish {
	case "length":
		return "max_tokens"
	case "tool_calls":
		return "tool_use"
	case "stop":
		return "end_turn"
	}
	return a.finish
}
