package sim

import "strconv"

// chat is the dialect of /v1/chat/completions.
type chat struct {
	q     *call
	cfg   *Config
	id    string
	head  string // of every chunk, up to the choices
	whead string // of a whole answer
}

func newChat(x *exchange, q *call) *chat {
	tail := `","created":` + strconv.FormatInt(x.created, 10) + `,"model":"` + escape(x.cfg.answerModel(q.model)) + `","choices":[`
	return &chat{
		q: q, cfg: x.cfg, id: x.id,
		head:  `{"id":"chatcmpl-` + x.id + `","object":"chat.completion.chunk` + tail,
		whead: `{"id":"chatcmpl-` + x.id + `","object":"chat.completion` + tail,
	}
}

func (d *chat) open(x *exchange, i int) error {
	b := d.choice(x.begin(), i)
	b = append(b, `"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
	return x.event(d.tail(b, usage{}, false))
}

func (d *chat) piece(x *exchange, i int, p piece, u usage) error {
	b := d.choice(x.begin(), i)
	switch p.kind {
	case content:
		b = append(append(append(b, `"content":"`...), p.json...), '"')
	case reasoning:
		b = d.appendReasoning(b, p.json)
	case toolName:
		b = append(append(b, `"tool_calls":[{"id":"`...), toolID(x.id, i)...)
		b = append(append(b, `","type":"function","index":0,"function":{"name":"`...), p.json...)
		b = append(b, `","arguments":""}}]`...)
	case toolArgs:
		b = append(append(b, `"tool_calls":[{"index":0,"function":{"arguments":"`...), p.json...)
		b = append(b, `"}}]`...)
	}
	b = append(b, `},"logprobs":null,"finish_reason":null}]`...)
	return x.event(d.tail(b, u, d.q.continual))
}

func (d *chat) close(x *exchange, i int, a *answer) error {
	b := append(d.choice(x.begin(), i), `"content":""},"logprobs":null,`...)
	b = appendFinish(b, a)
	return x.event(d.tail(append(b, "}]"...), usage{}, false))
}

func (d *chat) end(x *exchange, u usage) error {
	if d.q.usage {
		b := append(append(append(x.begin(), "data: "...), d.head...), ']')
		if err := x.event(d.tail(b, u, true)); err != nil {
			return err
		}
	}
	return x.event(append(x.begin(), "data: [DONE]\n\n"...))
}

func (d *chat) failure(x *exchange, e *apiError) error { return failData(x, e) }

func (d *chat) whole(b []byte, answers []answer, u usage) []byte {
	b = append(b, d.whead...)
	for i := range answers {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendInt(append(b, `{"index":`...), int64(i), 10), `,"message":{"role":"assistant",`...)
		b = d.appendMessage(b, &answers[i], i)
		b = append(b, `},"logprobs":null,`...)
		b = append(appendFinish(b, &answers[i]), '}')
	}
	b = append(b, `],"service_tier":null,"system_fingerprint":null,"usage":`...)
	b = appendUsage(b, u, d.cfg.Details)
	return append(b, `,"prompt_logprobs":null,"kv_transfer_params":null}`...)
}

func (d *chat) appendMessage(b []byte, a *answer, i int) []byte {
	calls := `[]`
	if name := a.text(toolName); name != "" {
		b = append(b, `"content":null`...)
		calls = `[{"id":"` + toolID(d.id, i) + `","type":"function","function":{"name":"` + escape(name) +
			`","arguments":"` + escape(a.text(toolArgs)) + `"}}]`
	} else {
		b = append(append(append(b, `"content":"`...), escape(a.text(content))...), '"')
	}
	b = append(append(b, `,"refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":`...), calls...)
	b = append(b, ',')
	if thought := a.text(reasoning); thought != "" {
		return d.appendReasoning(b, escape(thought))
	}
	return append(b, `"reasoning":null`...)
}

func (d *chat) appendReasoning(b []byte, text string) []byte {
	if d.cfg.Reasoning == "both" {
		b = append(append(append(b, `"reasoning_content":"`...), text...), `","reasoning":"`...)
	} else {
		b = append(append(append(b, '"'), d.cfg.Reasoning...), `":"`...)
	}
	return append(append(b, text...), '"')
}

// choice begins the event of choice i, up to the members of its delta.
func (d *chat) choice(b []byte, i int) []byte {
	b = append(append(b, "data: "...), d.head...)
	b = strconv.AppendInt(append(b, `{"index":`...), int64(i), 10)
	return append(b, `,"delta":{`...)
}

func (d *chat) tail(b []byte, u usage, withUsage bool) []byte {
	if withUsage {
		b = appendUsage(append(b, `,"usage":`...), u, d.cfg.Details)
	}
	return append(b, "}\n\n"...)
}

func appendFinish(b []byte, a *answer) []byte {
	b = append(append(append(b, `"finish_reason":"`...), a.finish...), `","stop_reason":`...)
	if a.stop == "" {
		return append(b, "null"...)
	}
	return append(append(append(b, '"'), escape(a.stop)...), '"')
}

func appendUsage(b []byte, u usage, details bool) []byte {
	b = strconv.AppendInt(append(b, `{"prompt_tokens":`...), int64(u.prompt), 10)
	b = strconv.AppendInt(append(b, `,"total_tokens":`...), int64(u.prompt+u.completion), 10)
	b = strconv.AppendInt(append(b, `,"completion_tokens":`...), int64(u.completion), 10)
	if !details {
		return append(b, `,"prompt_tokens_details":null}`...)
	}
	b = strconv.AppendInt(append(b, `,"prompt_tokens_details":{"cached_tokens":`...), int64(u.cached), 10)
	return append(b, "}}"...)
}

func toolID(seed string, i int) string {
	return "chatcmpl-tool-" + fingerprint(seed+strconv.Itoa(i))
}

// failData is an error in a stream that has already begun with status 200.
func failData(x *exchange, e *apiError) error {
	b := e.appendBody(append(x.begin(), "data: "...), ShapeNested)
	if err := x.event(append(b, "\n\n"...)); err != nil {
		return err
	}
	return x.event(append(x.begin(), "data: [DONE]\n\n"...))
}
