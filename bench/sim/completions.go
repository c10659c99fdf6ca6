package sim

import "strconv"

// completions is the dialect of /v1/completions.
type completions struct {
	q    *call
	cfg  *Config
	head string
}

func newCompletions(x *exchange, q *call) *completions {
	return &completions{q: q, cfg: x.cfg, head: `{"id":"cmpl-` + x.id + `","object":"text_completion","created":` +
		strconv.FormatInt(x.created, 10) + `,"model":"` + escape(x.cfg.answerModel(q.model)) + `","choices":[`}
}

func (d *completions) open(*exchange, int) error { return nil }

func (d *completions) piece(x *exchange, i int, p piece, u usage) error {
	b := append(append(x.begin(), "data: "...), d.head...)
	b = appendText(b, i, p.json)
	b = append(b, `"finish_reason":null,"stop_reason":null}]`...)
	if d.q.continual {
		b = appendUsage(append(b, `,"usage":`...), u, d.cfg.Details)
	}
	return x.event(append(b, "}\n\n"...))
}

func (d *completions) close(x *exchange, i int, a *answer) error {
	b := append(append(x.begin(), "data: "...), d.head...)
	b = appendFinish(appendText(b, i, ""), a)
	return x.event(append(b, "}]}\n\n"...))
}

func (d *completions) end(x *exchange, u usage) error {
	if d.q.usage {
		b := append(append(append(x.begin(), "data: "...), d.head...), `],"usage":`...)
		if err := x.event(append(appendUsage(b, u, d.cfg.Details), "}\n\n"...)); err != nil {
			return err
		}
	}
	return x.event(append(x.begin(), "data: [DONE]\n\n"...))
}

func (d *completions) failure(x *exchange, e *apiError) error { return failData(x, e) }

func (d *completions) whole(b []byte, answers []answer, u usage) []byte {
	b = append(b, d.head...)
	for i := range answers {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendFinish(appendText(b, i, escape(answers[i].text(content))), &answers[i])
		b = append(b, `,"prompt_logprobs":null}`...)
	}
	b = appendUsage(append(b, `],"usage":`...), u, d.cfg.Details)
	return append(b, '}')
}

func appendText(b []byte, i int, text string) []byte {
	b = strconv.AppendInt(append(b, `{"index":`...), int64(i), 10)
	return append(append(append(b, `,"text":"`...), text...), `","logprobs":null,`...)
}
