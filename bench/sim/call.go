package sim

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// call is what the simulator takes from the body of an inference request.
type call struct {
	path      string
	model     string
	prompts   []string // rendered; more than one only for completions and pooling
	counts    []int    // prompt tokens of each
	limits    []int    // output tokens of each
	identity  string   // what the answer is derived from
	salt      string   // separates KV cache entries: adapter and cache_salt
	extra     int      // prompt tokens that are not text: images, token ids
	stream    bool
	usage     bool // a usage chunk at the end of the stream
	continual bool // usage in every chunk
	n         int
	maxTokens int // 0 until bounded
	minTokens int
	seed      int64
	ignoreEOS bool
	stops     []string
	jsonMode  bool
	thinking  bool
	tool      *function // called in place of text
	fault     string
	dims      int  // embeddings
	base64    bool // embeddings
	previous  string
	system    string
	body      gjson.Result
}

// maxChoices bounds n, because every choice is made before the first is sent.
const maxChoices = 128

type function struct {
	name       string
	properties gjson.Result
}

// parseCall reads the members that the simulator acts on. As Python's parser
// does, it takes the last of duplicated members.
func parseCall(path string, body []byte) (*call, *apiError) {
	if !gjson.ValidBytes(body) {
		return nil, badRequest("", "[{'type': 'json_invalid', 'loc': ('body', 0), 'msg': 'JSON decode error', 'input': {}, 'ctx': {'error': 'Expecting value'}}]")
	}
	q := &call{path: path, n: 1, body: gjson.ParseBytes(body)}
	if !q.body.IsObject() {
		return nil, badRequest("", "[{'type': 'model_attributes_type', 'loc': ('body',), 'msg': 'Input should be a valid dictionary'}]")
	}
	last := make(map[string]gjson.Result, 16)
	q.body.ForEach(func(name, value gjson.Result) bool {
		last[name.String()] = value
		return true
	})
	if err := q.readCommon(last); err != nil {
		return nil, err
	}
	return q, q.readPrompt(last)
}

func (q *call) readCommon(m map[string]gjson.Result) *apiError {
	q.model = m["model"].String()
	q.stream = m["stream"].Bool()
	options := m["stream_options"]
	if options.IsObject() && !q.stream {
		return badRequest("", "Stream options can only be defined when `stream=True`.")
	}
	q.usage = options.Get("include_usage").Bool()
	q.continual = q.usage && options.Get("continuous_usage_stats").Bool()
	if n := m["n"]; n.Exists() && n.Type != gjson.Null {
		q.n = int(n.Int())
	}
	for _, name := range []string{"max_completion_tokens", "max_tokens", "max_output_tokens"} {
		limit := m[name]
		if limit.Exists() && limit.Type != gjson.Null && q.maxTokens == 0 {
			if q.maxTokens = int(limit.Int()); q.maxTokens < 1 {
				return badRequest("max_tokens", "max_tokens must be at least 1, got "+limit.Raw+".")
			}
		}
	}
	if q.n < 1 || q.n > maxChoices {
		return badRequest("n", fmt.Sprintf("n must be at least 1 and at most %d, got %d.", maxChoices, q.n))
	}
	q.readSampling(m)
	return q.readTools(m)
}

func (q *call) readSampling(m map[string]gjson.Result) {
	q.minTokens = int(m["min_tokens"].Int())
	q.ignoreEOS = m["ignore_eos"].Bool()
	q.seed = m["seed"].Int()
	q.salt = m["cache_salt"].String()
	q.fault = m["sim_fault"].String()
	q.previous = m["previous_response_id"].String()
	q.dims = int(m["dimensions"].Int())
	q.base64 = m["encoding_format"].String() == "base64"
	switch stop := m["stop"]; {
	case stop.Type == gjson.String:
		q.stops = []string{stop.String()}
	case stop.IsArray():
		for _, s := range stop.Array() {
			q.stops = append(q.stops, s.String())
		}
	}
	format := m["response_format"].Get("type").String()
	q.jsonMode = format == "json_object" || format == "json_schema"
	template := m["chat_template_kwargs"]
	q.thinking = template.Get("enable_thinking").Bool() || template.Get("thinking").Bool()
}

// readTools decides whether the answer is a tool call: when tool_choice says
// so, or when the last message asks for it in words.
func (q *call) readTools(m map[string]gjson.Result) *apiError {
	tools, choice := m["tools"].Array(), m["tool_choice"]
	name := choice.Get("function.name").String()
	if name == "" {
		name = choice.Get("name").String() // the shape of /v1/responses and /v1/messages
	}
	asked := name != "" || choice.String() == "required" || choice.Get("type").String() == "any"
	if asked && len(tools) == 0 {
		return badRequest("tool_choice", "When using `tool_choice`, `tools` must be set.")
	}
	if !asked && (choice.String() == "none" || !lastMessageAsks(m)) {
		return nil
	}
	for _, tool := range tools {
		if fn := readFunction(tool); name == "" || fn.name == name {
			q.tool = fn
			return nil
		}
	}
	if asked {
		return badRequest("tool_choice", "The tool specified in `tool_choice` does not match any of the specified `tools`")
	}
	return nil
}

func readFunction(tool gjson.Result) *function {
	fn := tool.Get("function")
	if !fn.Exists() {
		fn = tool
	}
	schema := fn.Get("parameters")
	if !schema.Exists() {
		schema = fn.Get("input_schema")
	}
	return &function{fn.Get("name").String(), schema.Get("properties")}
}

func lastMessageAsks(m map[string]gjson.Result) bool {
	messages := m["messages"].Array()
	if len(messages) == 0 {
		return false
	}
	last := messages[len(messages)-1]
	return last.Get("role").String() == "user" &&
		strings.Contains(strings.ToLower(last.Get("content").String()), "use the tool")
}

// bound checks the model and the context window, and fills in max_tokens.
func (c *Config) bound(q *call) *apiError {
	if !c.serves(q.model) {
		return noModel(q.model)
	}
	for _, p := range q.prompts {
		n := CountTokens(p) + q.extra
		limit := q.maxTokens
		switch {
		case q.pools():
			limit = 0
		case limit == 0 && q.path == "/v1/completions":
			limit = min(16, max(1, c.MaxModelLen-n))
		case limit == 0:
			limit = max(1, c.MaxModelLen-n)
		}
		if n+limit > c.MaxModelLen {
			return tooLong(c.MaxModelLen, n, limit)
		}
		q.counts = append(q.counts, n)
		q.limits = append(q.limits, limit)
	}
	return nil
}

// pools reports whether the call ends with the prompt: no token is generated.
func (q *call) pools() bool {
	switch q.path {
	case "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages":
		return false
	}
	return true
}
