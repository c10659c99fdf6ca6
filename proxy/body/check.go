package body

import (
	"math"
	"strconv"
	"unicode/utf8"
)

const (
	// longestModelName bounds a model's name, as written in the JSON.
	longestModelName = 512
	// longestNumber bounds the digits of a number that has to be read.
	longestNumber = 64

	mostTokens  = math.MaxInt32
	mostChoices = 1 << 16
)

// read reads the value of a member that is acted on; f is 0 for all others.
func (s *Scan) read(f field) {
	switch f {
	case fModel:
		s.readModel()
	case fStream:
		s.Stream = s.lex.boolean("stream")
	case fStreamOptions:
		s.readStreamOptions()
	case fMaxTokens:
		s.readMaxTokens("max_tokens")
	case fMaxCompletionTokens:
		s.readMaxTokens("max_completion_tokens")
	case fMaxOutputTokens:
		s.readMaxTokens("max_output_tokens")
	case fN:
		s.N = s.lex.integer("n", 1, mostChoices)
	case fBestOf:
		s.BestOf = s.lex.integer("best_of", 1, mostChoices)
	case fTemperature:
		s.lex.within("temperature", 2)
	case fTopP:
		s.lex.within("top_p", 1)
	case fStop:
		s.lex.stop()
	case fResponseFormat:
		s.lex.responseFormat()
	default:
		s.readContent(f)
	}
}

// readContent is the second half of read: the prompt, and what is only noted.
func (s *Scan) readContent(f field) {
	switch f {
	case fMessages:
		s.Prompt.Start = s.lex.i
		s.readMessages()
		s.Prompt.End = s.lex.i
	case fPrompt:
		s.readPrompt("prompt")
	case fInput:
		s.readPrompt("input")
	case fPromptEmbeds:
		s.readEmbeds()
	case fTools, fDocuments:
		s.PromptBytes += int64(s.lex.skip().Len())
	case fCacheSalt:
		s.CacheSalt = s.lex.skip()
	case fPriority:
		s.Priority = true
		s.lex.skip()
	case fTransfer, fTransferEC:
		s.KVTransferParams = true
		s.lex.skip()
	case fXargs:
		s.readXargs()
	default:
		s.lex.skip()
	}
}

func (s *Scan) readModel() {
	l := &s.lex
	if l.peek() != '"' {
		l.wrongType("model", "a string")
		return
	}
	s.ModelAt.Start = l.i
	text, escaped := l.str()
	s.ModelAt.End = l.i
	if text.Len() > longestModelName {
		l.refuse(CodeValue, "model", "model must be no longer than %d bytes", longestModelName)
		return
	}
	s.Model = l.b[text.Start:text.End]
	whole := true
	if escaped {
		s.Model, whole = unescape(s.model[:0], s.Model)
	}
	if !whole || !utf8.Valid(s.Model) {
		l.refuse(CodeValue, "model", "model must be valid Unicode")
	}
}

// readStreamOptions looks at include_usage only. Versions of vLLM differ in
// what an empty stream_options means, so only a written true counts.
func (s *Scan) readStreamOptions() {
	l := &s.lex
	if l.peek() != '{' {
		l.wrongType("stream_options", "an object")
		return
	}
	seen := false
	for sep := byte('{'); l.member(sep); sep = ',' {
		switch {
		case string(l.memberName(&s.name)) != "include_usage":
			l.skip()
		case seen:
			l.twice("stream_options.include_usage")
		default:
			seen = true
			s.IncludeUsage = !l.null() && l.boolean("stream_options.include_usage")
		}
	}
}

// readMaxTokens reads one spelling of the bound on the answer. The completions
// endpoint takes 0 with echo, to score a prompt.
func (s *Scan) readMaxTokens(param string) {
	least := int64(0)
	if s.kind == Chat {
		least = 1
	}
	v := s.lex.integer(param, least, mostTokens)
	wins := param == "max_completion_tokens" || s.seen&fMaxCompletionTokens == 0 || s.MaxTokens < 0
	if s.kind == Other {
		wins = v > s.MaxTokens
	}
	if wins {
		s.MaxTokens, s.maxTokensParam = v, param
	}
}

// readXargs looks for transfer parameters, which vLLM takes from there as well.
func (s *Scan) readXargs() {
	l := &s.lex
	if l.peek() != '{' {
		l.wrongType("vllm_xargs", "an object")
		return
	}
	for sep := byte('{'); l.member(sep); sep = ',' {
		if lookup(l.memberName(&s.name))&(fTransfer|fTransferEC) != 0 {
			s.KVTransferParams = true
		}
		l.skip()
	}
}

// FitsWindow returns a *Fault when the body asks for an answer that is longer
// than the model's context window, counted in tokens.
func (s *Scan) FitsWindow(tokens int64) error {
	if s.MaxTokens <= tokens {
		return nil
	}
	f := &Fault{Status: 400, Param: s.maxTokensParam, Code: CodeValue}
	f.Message = s.maxTokensParam + " must not be above the model's context window of " +
		strconv.FormatInt(tokens, 10) + " tokens"
	return f
}

func (l *lexer) boolean(param string) bool {
	switch l.peek() {
	case 't':
		return l.literal("true")
	case 'f':
		l.literal("false")
	default:
		l.wrongType(param, "true or false")
	}
	return false
}

// integer takes 2.0 and 2e3 as whole numbers, as pydantic does, but neither
// strings nor booleans, which pydantic would take.
func (l *lexer) integer(param string, least, most int64) int64 {
	v, ok := l.float(param, "an integer")
	if ok && (v != math.Trunc(v) || v < float64(least) || v > float64(most)) {
		l.refuse(CodeValue, param, "%s must be an integer between %d and %d", param, least, most)
		return 0
	}
	return int64(v)
}

// within checks a number between 0 and most.
func (l *lexer) within(param string, most float64) {
	v, ok := l.float(param, "a number")
	if ok && (v < 0 || v > most) {
		l.refuse(CodeValue, param, "%s must be between 0 and %g", param, most)
	}
}

// float reads a number as Python's float does; ok is false after a fault.
func (l *lexer) float(param, want string) (v float64, ok bool) {
	if c := l.peek(); c != '-' && (c < '0' || c > '9') {
		return 0, l.wrongType(param, want)
	}
	at := l.number()
	if l.fault != nil {
		return 0, false
	}
	if at.Len() > longestNumber {
		return 0, l.refuse(CodeValue, param, "%s must be written with fewer digits", param)
	}
	v, err := strconv.ParseFloat(string(l.b[at.Start:at.End]), 64)
	if err != nil { // the grammar is checked: it can only be too large
		return math.Inf(1), true
	}
	return v, true
}

func (l *lexer) stop() {
	const want = "a string or an array of strings"
	switch l.peek() {
	case '"':
		l.str()
	case '[':
		for sep := byte('['); l.element(sep); sep = ',' {
			if l.peek() != '"' {
				l.wrongType("stop", want)
			} else {
				l.str()
			}
		}
	default:
		l.wrongType("stop", want)
	}
}

func (l *lexer) responseFormat() {
	if l.peek() != '{' {
		l.wrongType("response_format", "an object")
		return
	}
	var scratch [longestName]byte
	typed := false
	for sep := byte('{'); l.member(sep); sep = ',' {
		if string(l.memberName(&scratch)) != "type" {
			l.skip()
			continue
		}
		if l.peek() != '"' {
			l.wrongType("response_format.type", "a string")
			return
		}
		l.str()
		typed = true
	}
	if !typed {
		l.refuse(CodeMissing, "response_format.type", "response_format.type must be there, for example \"json_object\"")
	}
}
