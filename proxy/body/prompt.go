package body

import "fmt"

// readMessages checks the messages and counts what the model will read.
func (s *Scan) readMessages() {
	l := &s.lex
	if l.peek() != '[' {
		l.wrongType("messages", "an array of messages")
		return
	}
	n := 0
	for sep := byte('['); l.element(sep); sep = ',' {
		s.readMessage(n)
		n++
	}
	if n == 0 {
		l.refuse(CodeMissing, "messages", "messages must have at least one message")
	}
}

// What has been met in a message.
const (
	mRole = 1 << iota // the member, with any value
	mContent
	mInstead // something that an assistant may say in place of content
	mRoleGiven
	mContentGiven
	mAssistant
)

func (s *Scan) readMessage(n int) {
	l := &s.lex
	if l.peek() != '{' {
		l.wrongType(path(n, ""), "an object")
		return
	}
	met := 0
	for sep := byte('{'); l.member(sep); sep = ',' {
		name := l.memberName(&s.name)
		part := messagePart(name)
		if met&part&(mRole|mContent) != 0 {
			l.twice(path(n, string(name)))
			return
		}
		met |= part&^mInstead | s.readMessagePart(n, part)
	}
	if met&mRoleGiven == 0 {
		l.refuse(CodeMissing, path(n, "role"), "%s must be there, for example \"user\"", path(n, "role"))
	}
	if met&mContentGiven == 0 && (met&mInstead == 0 || met&mAssistant == 0) {
		l.refuse(CodeMissing, path(n, "content"), "%s must be a string or an array of parts; "+
			"only an assistant message with tool_calls may go without", path(n, "content"))
	}
}

func messagePart(name []byte) int {
	switch string(name) {
	case "role":
		return mRole
	case "content":
		return mContent
	case "tool_calls", "function_call", "refusal", "audio", "reasoning", "reasoning_content":
		return mInstead
	}
	return 0
}

// readMessagePart reads one member's value and returns what that adds to what
// has been met.
func (s *Scan) readMessagePart(n, part int) int {
	l := &s.lex
	if l.null() {
		return 0
	}
	switch part {
	case mRole:
		return mRoleGiven | s.readRole(n)
	case mContent:
		s.readContents(n)
		return mContentGiven
	}
	s.PromptBytes += int64(l.skip().Len())
	return part
}

func (s *Scan) readRole(n int) int {
	l := &s.lex
	if l.peek() != '"' {
		l.wrongType(path(n, "role"), "a string")
		return 0
	}
	at, escaped := l.str()
	switch string(l.decode(at, escaped, &s.name)) {
	case "assistant":
		return mAssistant
	case "system", "developer", "user", "tool", "function":
	default:
		l.refuse(CodeValue, path(n, "role"), "%s must be one of system, developer, user, assistant and tool", path(n, "role"))
	}
	return 0
}

func (s *Scan) readContents(n int) {
	l := &s.lex
	switch l.peek() {
	case '"':
		s.readText()
	case '[':
		for sep := byte('['); l.element(sep); sep = ',' {
			s.readPart(n)
		}
	default:
		l.wrongType(path(n, "content"), "a string or an array of parts")
	}
}

func (s *Scan) readText() {
	at, _ := s.lex.str()
	s.PromptBytes += int64(at.Len())
}

// readPart reads a content part: vLLM takes plain strings among them.
func (s *Scan) readPart(n int) {
	l := &s.lex
	switch l.peek() {
	case '"':
		s.readText()
		return
	case '{':
	default:
		l.wrongType(path(n, "content"), "an array of objects")
		return
	}
	media := false
	for sep := byte('{'); l.member(sep); sep = ',' {
		switch string(l.memberName(&s.name)) {
		case "text", "refusal", "thinking":
			s.PromptBytes += int64(l.skip().Len())
		case "image_url", "image_embeds", "image_pil", "audio_url", "input_audio", "audio_embeds", "video_url", "file":
			media = l.peek() != 'n' || media
			l.skip()
		default:
			l.skip()
		}
	}
	if media {
		s.Media++
	}
}

const promptShapes = "a string, an array of strings, an array of token ids, or an array of such arrays"

// readPrompt reads prompt or input. Mixed arrays are refused: pydantic would
// take the string in [1, "2"] for a token id, and so see one prompt.
func (s *Scan) readPrompt(param string) {
	l := &s.lex
	s.Prompt.Start = l.i
	switch l.peek() {
	case '"':
		s.Prompts++
		s.readText()
	case '[':
		s.readPrompts(param)
	default:
		l.wrongType(param, promptShapes)
	}
	s.Prompt.End = l.i
}

func (s *Scan) readPrompts(param string) {
	l := &s.lex
	var shape byte
	for sep := byte('['); l.element(sep); sep = ',' {
		c := promptShape(l.peek())
		switch {
		case c == 0, shape != 0 && c != shape:
			l.wrongType(param, promptShapes)
		case c == '"':
			s.Prompts++
			s.readText()
		case c == '[':
			s.Prompts++
			s.readTokens(param)
		case c == '0':
			l.number()
			s.PromptTokens++
		}
		shape = c
	}
	if shape == '0' {
		s.Prompts++
	}
	if shape == 0 {
		l.refuse(CodeValue, param, "%s must not be empty", param)
	}
}

func (s *Scan) readTokens(param string) {
	l := &s.lex
	for sep := byte('['); l.element(sep); sep = ',' {
		if promptShape(l.peek()) != '0' {
			l.wrongType(param, promptShapes)
			return
		}
		l.number()
		s.PromptTokens++
	}
}

// promptShape sorts a value by its first byte: '"' text, '0' a token id, '['
// an array, 0 anything else.
func promptShape(c byte) byte {
	switch {
	case c == '"' || c == '[':
		return c
	case c >= '0' && c <= '9':
		return '0'
	}
	return 0
}

// readEmbeds counts prompts that are given as embeddings: vLLM answers each.
func (s *Scan) readEmbeds() {
	l := &s.lex
	switch l.peek() {
	case '"':
		s.Prompts++
		l.skip()
	case '[':
		for sep := byte('['); l.element(sep); sep = ',' {
			s.Prompts++
			l.skip()
		}
	default:
		l.wrongType("prompt_embeds", "a string or an array of strings")
	}
}

// path is the OpenAI style path of a member of message n, or of the message.
func path(n int, member string) string {
	if member == "" {
		return fmt.Sprintf("messages[%d]", n)
	}
	return fmt.Sprintf("messages[%d].%s", n, member)
}
