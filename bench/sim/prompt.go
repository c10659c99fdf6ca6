package sim

import (
	"strings"

	"github.com/tidwall/gjson"
)

// readPrompt renders what the model would read and sets what the answer is
// derived from.
func (q *call) readPrompt(m map[string]gjson.Result) *apiError {
	switch q.path {
	case "/v1/chat/completions", "/v1/messages":
		return q.readMessages(m)
	case "/v1/completions":
		return q.readTexts(m, "prompt")
	case "/v1/responses":
		return q.readResponsesInput(m)
	case "/v1/embeddings", "/pooling", "/classify":
		return q.readTexts(m, "input")
	case "/score", "/v1/score":
		return q.readPairs(m, "text_1", "text_2")
	case "/rerank", "/v1/rerank", "/v2/rerank":
		return q.readPairs(m, "query", "documents")
	}
	if m["messages"].IsArray() { // tokenize takes either
		return q.readMessages(m)
	}
	return q.readTexts(m, "prompt")
}

func (q *call) readMessages(m map[string]gjson.Result) *apiError {
	messages := m["messages"]
	if !messages.IsArray() {
		return missing("messages")
	}
	q.identity = messages.Raw
	var b strings.Builder
	q.system = contentText(m["system"], &q.extra)
	if tools := m["tools"]; tools.IsArray() {
		renderTurn(&b, "tools", tools.Raw)
	}
	if q.system != "" {
		renderTurn(&b, "system", q.system)
	}
	for _, message := range messages.Array() {
		role := message.Get("role").String()
		if role == "" {
			return badRequest("", "[{'type': 'missing', 'loc': ('body', 'messages', 0, 'role'), 'msg': 'Field required'}]")
		}
		text := contentText(message.Get("content"), &q.extra)
		if calls := message.Get("tool_calls"); calls.IsArray() {
			text += calls.Raw
		}
		renderTurn(&b, role, text)
	}
	b.WriteString("\x02assistant\x03")
	q.prompts = []string{b.String()}
	return nil
}

// renderTurn frames a turn in three tokens, about what chat templates add.
func renderTurn(b *strings.Builder, role, text string) {
	b.WriteString("\x02")
	b.WriteString(role)
	b.WriteString("\x03")
	b.WriteString(text)
}

// contentText is the text of a message's content; images count as tokens of
// their own and leave a mark that tells them apart.
func contentText(content gjson.Result, extra *int) string {
	if !content.IsArray() {
		return content.String()
	}
	var b strings.Builder
	for _, part := range content.Array() {
		switch part.Get("type").String() {
		case "text", "input_text", "output_text":
			b.WriteString(part.Get("text").String())
		case "image_url", "image", "input_image":
			*extra += imageTokens
			b.WriteString("\x04")
			b.WriteString(fingerprint(part.Raw))
		default:
			b.WriteString(part.Raw)
		}
	}
	return b.String()
}

// readTexts reads a member that is a string, an array of strings, or token
// ids, as /v1/completions and /v1/embeddings take it.
func (q *call) readTexts(m map[string]gjson.Result, member string) *apiError {
	value := m[member]
	q.identity = value.Raw
	switch {
	case value.Type == gjson.String:
		q.prompts = []string{value.String()}
	case value.IsArray():
		items := value.Array()
		if len(items) > 0 && items[0].Type == gjson.Number {
			q.prompts = []string{value.Raw}
			break
		}
		for _, item := range items {
			if item.IsArray() {
				q.prompts = append(q.prompts, item.Raw)
				continue
			}
			q.prompts = append(q.prompts, item.String())
		}
	case m["messages"].IsArray():
		return q.readMessages(m)
	}
	if len(q.prompts) == 0 {
		return missing(member)
	}
	return nil
}

func (q *call) readResponsesInput(m map[string]gjson.Result) *apiError {
	input := m["input"]
	q.identity = input.Raw
	var b strings.Builder
	if text := m["instructions"].String(); text != "" {
		renderTurn(&b, "system", text)
	}
	switch {
	case input.Type == gjson.String:
		renderTurn(&b, "user", input.String())
	case input.IsArray():
		for _, item := range input.Array() {
			renderTurn(&b, item.Get("role").String(), contentText(item.Get("content"), &q.extra))
		}
	default:
		return missing("input")
	}
	b.WriteString("\x02assistant\x03")
	q.prompts = []string{b.String()}
	return nil
}

// readPairs makes one prompt of each document with the query before it.
func (q *call) readPairs(m map[string]gjson.Result, left, right string) *apiError {
	query, documents := m[left], m[right]
	if !query.Exists() {
		return missing(left)
	}
	if !documents.Exists() {
		return missing(right)
	}
	q.identity = query.Raw + documents.Raw
	list := []gjson.Result{documents}
	if documents.IsArray() {
		list = documents.Array()
	}
	for _, d := range list {
		q.prompts = append(q.prompts, query.String()+"\x03"+documentText(d))
	}
	return nil
}

func documentText(d gjson.Result) string {
	if text := d.Get("text"); text.Exists() {
		return text.String()
	}
	return d.String()
}

func missing(member string) *apiError {
	return badRequest("", "[{'type': 'missing', 'loc': ('body', '"+member+"'), 'msg': 'Field required', 'input': {}}]")
}
