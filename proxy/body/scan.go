package body

// Kind is the shape that a body is read as.
type Kind uint8

// The shapes. Other stands for all further JSON inference endpoints: of those
// bodies only the members that every endpoint shares are looked at.
const (
	Chat Kind = iota
	Completions
	Embeddings
	Other
)

// maxMembers bounds the members of the body's top level, whose places are
// kept; OpenAI and vLLM together know some 80 names.
const maxMembers = 256

// A Scan is what the gateway needs to know of one body. It can be reused,
// and then allocates nothing but faults.
//
// It refers to the body that Parse was given (Model and what Splice returns
// are views of it): the body must stay as it is while the Scan is in use, and
// Reset lets go of it. A Scan must not be copied.
type Scan struct {
	Model   []byte // decoded, valid UTF-8, never empty; a view of the body or of the Scan's own memory
	ModelAt Span   // the value of model, quotes included

	Stream       bool
	IncludeUsage bool // stream_options.include_usage is written as true

	// MaxTokens is what the answer may have per choice, -1 when the body does
	// not say. max_completion_tokens wins over max_tokens, as in vLLM; for
	// Other it is the largest of all spellings. At most 1<<31-1.
	MaxTokens int64
	N         int64 // choices per prompt, 1 when absent, at most 1<<16
	BestOf    int64 // candidates per prompt, 1 when absent, at most 1<<16

	Priority         bool // priority is there, with any value but null
	KVTransferParams bool // kv_transfer_params or ec_transfer_params is there, also within vllm_xargs

	// Prompts counts the prompts of a body for Completions (embeds included)
	// or Embeddings; 1 for the other kinds.
	Prompts int64
	// PromptBytes counts, as written in the JSON, the text that the model will
	// read: contents, tool calls, tools, documents; not inline media. It is 0
	// for Other. PromptTokens counts prompt tokens given by their ids.
	PromptBytes, PromptTokens int64
	Media                     int64 // content parts that carry an image, a sound or a video

	Prompt    Span // the value of messages, prompt or input (the last of them)
	CacheSalt Span // the value of cache_salt

	kind    Kind
	lex     lexer
	seen    field
	members []member
	blocks  []uint64 // made by Blocks
	hashes  []uint64 // memory for them
	end     int      // place of the closing brace

	maxTokensParam string                 // the member that MaxTokens is from
	name           [longestName]byte      // memory for a decoded member name
	model          [longestModelName]byte // memory for a decoded model
}

// member is where one member of the top level stands in the body.
type member struct {
	name    Span // without quotes
	value   Span
	escaped bool // the name holds a backslash
}

// Parse reads b as a body of the given kind. The error is a *Fault. After an
// error the Scan holds nothing of use.
func (s *Scan) Parse(kind Kind, b []byte) error {
	s.Reset()
	s.kind = kind
	s.lex.b = b
	s.object()
	if s.lex.fault == nil {
		s.complete()
	}
	if s.lex.fault != nil {
		return s.lex.fault
	}
	return nil
}

// Reset forgets the body, but keeps memory for the next one.
func (s *Scan) Reset() {
	*s = Scan{MaxTokens: -1, N: 1, BestOf: 1, members: s.members[:0], hashes: s.hashes[:0]}
}

// object reads the whole body.
func (s *Scan) object() {
	l := &s.lex
	l.space()
	if l.peek() != '{' {
		l.refuse(CodeInvalidJSON, "", "the body must be a JSON object in UTF-8, without a byte order mark")
		return
	}
	for sep := byte('{'); l.member(sep); sep = ',' {
		s.member()
	}
	s.end = l.i - 1
	l.space()
	if l.i < len(l.b) {
		l.broken("the object has ended, but more follows")
	}
}

// member reads one member of the top level: the name has been passed.
func (s *Scan) member() {
	l := &s.lex
	if len(s.members) == maxMembers {
		l.refuse(CodeValue, "", "the body must have at most %d members at its top level", maxMembers)
		return
	}
	m := member{name: l.name, escaped: l.escaped}
	f := lookup(l.memberName(&s.name)) & actedOn[s.kind]
	if s.seen&f != 0 {
		l.twice(string(l.memberName(&s.name)))
		return
	}
	s.seen |= f
	m.value.Start = l.i
	if !l.null() {
		s.read(f)
	}
	m.value.End = l.i
	s.members = append(s.members, m)
}

func (l *lexer) twice(param string) {
	l.refuse(CodeDuplicate, param, "%s is there twice; keep one", param)
}

// complete checks what can only be known at the end.
func (s *Scan) complete() {
	l := &s.lex
	if len(s.Model) == 0 {
		l.refuse(CodeMissing, "model", "model must name a model; the list is at /v1/models")
	}
	read := s.Prompt != Span{}
	switch {
	case s.kind == Chat && !read:
		l.refuse(CodeMissing, "messages", "messages must be an array with at least one message")
	case s.kind == Completions && !read && s.Prompts == 0:
		l.refuse(CodeMissing, "prompt", "prompt must be there: a string, an array of strings, or token ids")
	case s.kind == Embeddings && !read:
		l.refuse(CodeMissing, "input", "input must be there: a string, an array of strings, or token ids")
	}
	s.Prompts = max(s.Prompts, 1)
}
