package body

import (
	"errors"
	"strings"
	"testing"
)

func TestParseRefuses(t *testing.T) {
	rows := []struct {
		name, body  string
		code, param string
	}{
		{"an empty body", ``, CodeInvalidJSON, ""},
		{"an array", `[]`, CodeInvalidJSON, ""},
		{"a byte order mark", "\xef\xbb\xbf" + chatWith(`"a":1`), CodeInvalidJSON, ""},
		{"UTF-16, which Python would read", "{\x00\"\x00a\x00\"\x00:\x001\x00}\x00", CodeInvalidJSON, ""},
		{"garbage behind the object", chatWith(`"a":1`) + `x`, CodeInvalidJSON, ""},
		{"a second object", chatWith(`"a":1`) + `{}`, CodeInvalidJSON, ""},
		{"a NUL at the end", chatWith(`"a":1`) + "\x00", CodeInvalidJSON, ""},
		{"NaN", chatWith(`"a":NaN`), CodeInvalidJSON, ""},
		{"Infinity", chatWith(`"a":-Infinity`), CodeInvalidJSON, ""},
		{"a trailing comma in an object", chatWith(`"a":1,`), CodeInvalidJSON, ""},
		{"a trailing comma in an array", chatWith(`"a":[1,]`), CodeInvalidJSON, ""},
		{"a leading zero", chatWith(`"a":01`), CodeInvalidJSON, ""},
		{"a number without a fraction", chatWith(`"a":1.`), CodeInvalidJSON, ""},
		{"a number without an exponent", chatWith(`"a":1e+`), CodeInvalidJSON, ""},
		{"a plus sign", chatWith(`"a":+1`), CodeInvalidJSON, ""},
		{"a raw control character", chatWith("\"a\":\"b\nc\""), CodeInvalidJSON, ""},
		{"a raw control character far in a string", chatWith(`"a":"` + strings.Repeat("b", 41) + "\x1f" + `"`), CodeInvalidJSON, ""},
		{"a raw control character in a name", chatWith("\"a\x00\":1"), CodeInvalidJSON, ""},
		{"an unknown escape", chatWith(`"a":"\x41"`), CodeInvalidJSON, ""},
		{"a broken \\u escape", chatWith(`"a":"\u12g4"`), CodeInvalidJSON, ""},
		{"a no-break space", chatWith("\"a\":\u00a01"), CodeInvalidJSON, ""},
		{"brackets that do not match", chatWith(`"a":[1}`), CodeInvalidJSON, ""},
		{"no colon", chatWith(`"a" 1`), CodeInvalidJSON, ""},
		{"no comma", chatWith(`"a":1 "b":2`), CodeInvalidJSON, ""},
		{"a name without quotes", chatWith(`a:1`), CodeInvalidJSON, ""},
		{"a word cut short", chatWith(`"a":tru`), CodeInvalidJSON, ""},
		{"a literal that runs on", chatWith(`"a":nulll`), CodeInvalidJSON, ""},
		{"a broken value where a boolean belongs", chatWith(`"stream":fals`), CodeInvalidJSON, ""},

		{"no model", `{` + hello + `}`, CodeMissing, "model"},
		{"a null model", `{"model":null,` + hello + `}`, CodeMissing, "model"},
		{"an empty model", `{"model":"",` + hello + `}`, CodeMissing, "model"},
		{"a model that is no string", `{"model":1,` + hello + `}`, CodeType, "model"},
		{"a model with half a surrogate pair", `{"model":"a\ud800",` + hello + `}`, CodeValue, "model"},
		{"a model that is not UTF-8", "{\"model\":\"a\xff\"," + hello + `}`, CodeValue, "model"},
		{"an endless model", `{"model":"` + strings.Repeat("a", 513) + `",` + hello + `}`, CodeValue, "model"},
		{"model twice", chatWith(`"model":"other"`), CodeDuplicate, "model"},
		{"model twice, once null", chatWith(`"model":null`), CodeDuplicate, "model"},
		{"model twice, once escaped", chatWith(`"\u006dodel":"other"`), CodeDuplicate, "model"},
		{"stream twice", chatWith(`"stream":true,"stre\u0061m":false`), CodeDuplicate, "stream"},
		{"messages twice", chatWith(hello), CodeDuplicate, "messages"},
		{"priority twice", chatWith(`"priority":null,"priority":1`), CodeDuplicate, "priority"},
		{"include_usage twice", chatWith(`"stream_options":{"include_usage":true,"includ\u0065_usage":false}`), CodeDuplicate, "stream_options.include_usage"},
		{"role twice", withMessages(`[{"role":"user","content":"","r\u006fle":"tool"}]`), CodeDuplicate, "messages[0].role"},
		{"content twice", withMessages(`[{"role":"user","content":null,"content":""}]`), CodeDuplicate, "messages[0].content"},

		{"no messages", `{"model":"mete"}`, CodeMissing, "messages"},
		{"null messages", withMessages(`null`), CodeMissing, "messages"},
		{"empty messages", withMessages(`[]`), CodeMissing, "messages"},
		{"messages as a string", withMessages(`"hello"`), CodeType, "messages"},
		{"a message that is a string", withMessages(`[{"role":"user","content":""},"hello"]`), CodeType, "messages[1]"},
		{"a message without a role", withMessages(`[{"content":""}]`), CodeMissing, "messages[0].role"},
		{"a message with a null role", withMessages(`[{"role":null,"content":""}]`), CodeMissing, "messages[0].role"},
		{"an unknown role", withMessages(`[{"role":"User","content":""}]`), CodeValue, "messages[0].role"},
		{"a role that is a number", withMessages(`[{"role":1,"content":""}]`), CodeType, "messages[0].role"},
		{"a user without content", withMessages(`[{"role":"user"}]`), CodeMissing, "messages[0].content"},
		{"a user with tool calls and without content", withMessages(`[{"role":"user","tool_calls":[]}]`), CodeMissing, "messages[0].content"},
		{"an assistant without anything", withMessages(`[{"role":"assistant","content":null,"tool_calls":null}]`), CodeMissing, "messages[0].content"},
		{"content as an object", withMessages(`[{"role":"user","content":{}}]`), CodeType, "messages[0].content"},
		{"a content part that is a number", withMessages(`[{"role":"user","content":[{"type":"text","text":"a"},1]}]`), CodeType, "messages[0].content"},

		{"temperature too high", chatWith(`"temperature":2.01`), CodeValue, "temperature"},
		{"temperature below zero", chatWith(`"temperature":-0.1`), CodeValue, "temperature"},
		{"temperature beyond a float", chatWith(`"temperature":1e999`), CodeValue, "temperature"},
		{"temperature as a string, which pydantic takes", chatWith(`"temperature":"nan"`), CodeType, "temperature"},
		{"temperature in very many digits", chatWith(`"temperature":1.` + strings.Repeat("0", 80)), CodeValue, "temperature"},
		{"top_p too high", chatWith(`"top_p":1.1`), CodeValue, "top_p"},
		{"max_tokens of zero", chatWith(`"max_tokens":0`), CodeValue, "max_tokens"},
		{"max_tokens below zero", chatWith(`"max_tokens":-5`), CodeValue, "max_tokens"},
		{"max_tokens with a fraction", chatWith(`"max_tokens":1.5`), CodeValue, "max_tokens"},
		{"max_tokens beyond counting", chatWith(`"max_tokens":2147483648`), CodeValue, "max_tokens"},
		{"max_tokens as a string, which pydantic takes", chatWith(`"max_tokens":"5"`), CodeType, "max_tokens"},
		{"max_tokens as a boolean, which pydantic takes", chatWith(`"max_tokens":true`), CodeType, "max_tokens"},
		{"max_completion_tokens of zero", chatWith(`"max_completion_tokens":0`), CodeValue, "max_completion_tokens"},
		{"n of zero", chatWith(`"n":0`), CodeValue, "n"},
		{"very many choices", chatWith(`"n":65537`), CodeValue, "n"},
		{"stream as a number, which pydantic takes", chatWith(`"stream":1`), CodeType, "stream"},
		{"stream as a string, which pydantic takes", chatWith(`"stream":"true"`), CodeType, "stream"},
		{"stream_options as a boolean", chatWith(`"stream_options":true`), CodeType, "stream_options"},
		{"include_usage as a number", chatWith(`"stream_options":{"include_usage":1}`), CodeType, "stream_options.include_usage"},
		{"stop as a number", chatWith(`"stop":1`), CodeType, "stop"},
		{"stop with a number", chatWith(`"stop":["a",1]`), CodeType, "stop"},
		{"response_format as a string", chatWith(`"response_format":"json_object"`), CodeType, "response_format"},
		{"response_format without a type", chatWith(`"response_format":{"x":1}`), CodeMissing, "response_format.type"},
		{"response_format with a number for a type", chatWith(`"response_format":{"type":1}`), CodeType, "response_format.type"},
		{"vllm_xargs as an array", chatWith(`"vllm_xargs":[]`), CodeType, "vllm_xargs"},
	}
	var s Scan
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) { refused(t, s.Parse(Chat, []byte(r.body)), r.code, r.param) })
	}
}

func TestParseRefusesPrompts(t *testing.T) {
	rows := []struct{ name, prompt, code string }{
		{"an object", `{}`, CodeType},
		{"a number", `7`, CodeType},
		{"an empty array", `[]`, CodeValue},
		{"text and token ids mixed, which pydantic takes for one prompt", `[1,"2"]`, CodeType},
		{"text and arrays mixed", `["a",[1]]`, CodeType},
		{"booleans, which pydantic takes for token ids", `[true]`, CodeType},
		{"text in an array of arrays", `[["a"]]`, CodeType},
		{"a negative token id", `[-1]`, CodeType},
		{"a null in the array", `["a",null]`, CodeType},
		{"null", `null`, CodeMissing},
	}
	var s Scan
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			refused(t, s.Parse(Completions, []byte(`{"model":"m","prompt":`+r.prompt+`}`)), r.code, "prompt")
			refused(t, s.Parse(Embeddings, []byte(`{"model":"m","input":`+r.prompt+`}`)), r.code, "input")
		})
	}
	refused(t, s.Parse(Completions, []byte(`{"model":"m","prompt_embeds":{}}`)), CodeType, "prompt_embeds")
}

// refused wants a fault, of that code and param, that a client can act on.
func refused(t *testing.T, err error, code, param string) {
	t.Helper()
	var f *Fault
	if !errors.As(err, &f) {
		t.Fatalf("accepted, or no fault: %v", err)
	}
	if f.Status != 400 || f.Code != code || f.Param != param {
		t.Errorf("got %d %s %q (%s), want 400 %s %q", f.Status, f.Code, f.Param, f.Message, code, param)
	}
	if !strings.Contains(f.Message, param) || f.Message == "" {
		t.Errorf("the message does not name %q: %s", param, f.Message)
	}
}
