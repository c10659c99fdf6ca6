package sim

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestEveryWordIsOneTokenAndValidJSON(t *testing.T) {
	for _, w := range vocabulary {
		if CountTokens(w) != 1 || CountTokens(" "+w) != 1 {
			t.Errorf("%q is not one token", w)
		}
		if escape(w) != w || !utf8.ValidString(w) {
			t.Errorf("%q needs escaping", w)
		}
	}
}

func TestCountTokens(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "hello": 1, "hello world": 2, "Hello, world.": 4, "  two": 2, "12345": 2, " 42": 1,
		"abcdefghij": 2, "日本": 1, "a\nb": 3, " ": 1, "\x02user\x03hi": 4,
	} {
		if got := CountTokens(text); got != want {
			t.Errorf("%q: %d tokens, want %d", text, got, want)
		}
		if got := len(tokenIDs(text)); got != want {
			t.Errorf("%q: %d ids, want %d", text, got, want)
		}
	}
}

func TestBlockHashesCoverTheWholePrefix(t *testing.T) {
	base := strings.Repeat("word ", 64)
	a := BlockHashes(base, 16, 0)
	if len(a) != 4 {
		t.Fatalf("%d blocks", len(a))
	}
	late := BlockHashes(base[:200]+"X"+base[201:], 16, 0)
	early := BlockHashes("X"+base[1:], 16, 0)
	salted := BlockHashes(base, 16, 1)
	for i := range a {
		if a[i] == early[i] || a[i] == salted[i] {
			t.Errorf("block %d does not see what comes before it", i)
		}
	}
	if a[0] != late[0] || a[1] != late[1] || a[2] == late[2] || a[3] == late[3] {
		t.Error("a change in the third block must change it and the blocks after it, and no other")
	}
}

func answerOf(t *testing.T, cfg Config, path, body string) answer {
	t.Helper()
	cfg = cfg.withDefaults()
	q, bad := parseCall(path, []byte(body))
	if bad == nil {
		bad = cfg.bound(q)
	}
	if bad != nil {
		t.Fatal(bad)
	}
	q.maxTokens = q.limits[0]
	return cfg.answer(q, 0)
}

func TestAnswerLengthAndEnd(t *testing.T) {
	const messages = `"messages":[{"role":"user","content":"hi"}]`
	for _, row := range []struct {
		name, body string
		tokens     int
		finish     string
	}{
		{"the natural length ends with stop", `{` + messages + `}`, 20, "stop"},
		{"max_tokens below it ends with length", `{"max_tokens":5,` + messages + `}`, 5, "length"},
		{"max_completion_tokens goes before max_tokens", `{"max_completion_tokens":3,"max_tokens":5,` + messages + `}`, 3, "length"},
		{"null is absent", `{"max_tokens":null,` + messages + `}`, 20, "stop"},
		{"max_tokens above it ends with stop", `{"max_tokens":50,` + messages + `}`, 20, "stop"},
		{"ignore_eos goes to the limit", `{"max_tokens":50,"ignore_eos":true,` + messages + `}`, 50, "length"},
		{"min_tokens makes it longer", `{"min_tokens":30,` + messages + `}`, 30, "stop"},
		{"the last of duplicated members counts", `{"max_tokens":5,"max_tokens":7,` + messages + `}`, 7, "length"},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := answerOf(t, Config{OutputTokens: 20}, chatPath, row.body)
			if len(a.pieces) != row.tokens || a.finish != row.finish {
				t.Errorf("%d tokens, %q; want %d, %q", len(a.pieces), a.finish, row.tokens, row.finish)
			}
		})
	}
}

func TestAnswersDependOnSeedAndPromptAlone(t *testing.T) {
	text := func(cfg Config, body string) string { return pick(answerOf(t, cfg, chatPath, body)) }
	base := text(Config{}, hello)
	for name, same := range map[string]string{
		"streamed":           text(Config{}, streamed),
		"another model name": text(Config{Models: []string{"x"}}, strings.Replace(hello, `"sim"`, `"x"`, 1)),
		"a temperature":      text(Config{}, strings.Replace(hello, `{`, `{"temperature":1,`, 1)),
	} {
		if same != base {
			t.Errorf("%s changes the text", name)
		}
	}
	seen := map[string]string{base: "base"}
	for name, other := range map[string]string{
		"another seed":           text(Config{Seed: 1}, hello),
		"the request's own seed": text(Config{}, strings.Replace(hello, `{`, `{"seed":1,`, 1)),
		"another prompt":         text(Config{}, strings.Replace(hello, "hello", "hallo", 1)),
	} {
		if before, dup := seen[other]; dup {
			t.Errorf("%s gives the same text as %s", name, before)
		}
		seen[other] = name
	}
}

func pick(a answer) string { return a.text(content) }

func TestStopSequences(t *testing.T) {
	whole := pick(answerOf(t, Config{}, chatPath, hello))
	words := strings.Fields(whole)
	quoted, _ := json.Marshal([]string{"never", words[7][1:] + " " + words[8], words[4]})
	a := answerOf(t, Config{}, chatPath, strings.Replace(hello, `{`, `{"stop":`+string(quoted)+`,`, 1))
	if want := whole[:strings.Index(whole, words[4])]; pick(a) != want || a.finish != "stop" || a.stop != words[4] {
		t.Errorf("got %q, %q, %q; want %q", pick(a), a.finish, a.stop, want)
	}
	first, _ := json.Marshal(whole[:2])
	if a := answerOf(t, Config{}, chatPath, strings.Replace(hello, `{`, `{"stop":`+string(first)+`,`, 1)); pick(a) != "" {
		t.Errorf("a stop at the beginning leaves %q", pick(a))
	}
}

func TestJSONModeAnswersWithAnObject(t *testing.T) {
	a := answerOf(t, Config{OutputTokens: 200}, chatPath, strings.Replace(hello, `{`, `{"response_format":{"type":"json_object"},`, 1))
	if !json.Valid([]byte(pick(a))) || a.finish != "stop" {
		t.Errorf("%q, %q", pick(a), a.finish)
	}
}

func TestThinkingComesBeforeContent(t *testing.T) {
	for _, member := range []string{"enable_thinking", "thinking"} {
		a := answerOf(t, Config{}, chatPath, strings.Replace(hello, `{`, `{"chat_template_kwargs":{"`+member+`":true},`, 1))
		if a.pieces[0].kind != reasoning || a.pieces[len(a.pieces)-1].kind != content || len(a.pieces) != 64 {
			t.Errorf("%s: %d pieces, first %d", member, len(a.pieces), a.pieces[0].kind)
		}
	}
}

func TestToolCalls(t *testing.T) {
	const tools = `"tools":[{"type":"function","function":{"name":"a","parameters":{}}},{"type":"function","function":{"name":"weather","parameters":
		{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},"unit":{"enum":["C","F"]},"all":{"type":"boolean"}}}}}]`
	for _, row := range []struct {
		name, body, tool string
	}{
		{"a named tool is called", `{` + tools + `,"tool_choice":{"type":"function","function":{"name":"weather"}},"messages":[{"role":"user","content":"x"}]}`, "weather"},
		{"required calls the first", `{` + tools + `,"tool_choice":"required","messages":[{"role":"user","content":"x"}]}`, "a"},
		{"words call the first", `{` + tools + `,"messages":[{"role":"user","content":"Please USE THE TOOL now"}]}`, "a"},
		{"none calls none", `{` + tools + `,"tool_choice":"none","messages":[{"role":"user","content":"use the tool"}]}`, ""},
		{"a plain prompt calls none", `{` + tools + `,"messages":[{"role":"user","content":"x"}]}`, ""},
		{"a tool's result is answered with text", `{` + tools + `,"messages":[{"role":"user","content":"use the tool"},{"role":"tool","content":"42"}]}`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := answerOf(t, Config{}, chatPath, row.body)
			if got := a.text(toolName); got != row.tool {
				t.Fatalf("called %q, want %q", got, row.tool)
			}
			if row.tool == "" {
				return
			}
			if !json.Valid([]byte(a.text(toolArgs))) || a.finish != "tool_calls" {
				t.Errorf("%s, %q", a.text(toolArgs), a.finish)
			}
			if row.tool == "weather" {
				var args struct {
					City, Unit string
					Days       int
					All        bool
				}
				if err := json.Unmarshal([]byte(a.text(toolArgs)), &args); err != nil || args.City == "" || args.Unit != "C" || args.Days < 1 || !args.All {
					t.Errorf("%+v, %v", args, err)
				}
			}
		})
	}
}

func TestProseHoldsMultiByteText(t *testing.T) {
	a := answerOf(t, Config{OutputTokens: 2000}, chatPath, hello)
	text := pick(a)
	if utf8.RuneCountInString(text) == len(text) || !strings.Contains(text, "\n") || !utf8.ValidString(text) {
		t.Error("2000 words without a multi-byte character or a new line")
	}
}
