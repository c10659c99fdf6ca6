package body

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const hello = `"messages":[{"role":"user","content":"hello"}]`

// chatWith is a good chat body with more members.
func chatWith(more string) string { return `{"model":"mete",` + hello + `,` + more + `}` }

// withMessages is a good chat body but for its messages.
func withMessages(messages string) string { return `{"model":"mete","messages":` + messages + `}` }

func TestParseReadsWhatTheGatewayActsOn(t *testing.T) {
	type want struct {
		model             string
		stream, usage     bool
		max, n, bestOf    int64
		prompts           int64
		bytes, ids, media int64
	}
	plain := want{model: "mete", max: -1, n: 1, bestOf: 1, prompts: 1, bytes: 5}
	but := func(change func(*want)) want { w := plain; change(&w); return w }
	rows := []struct {
		name string
		kind Kind
		body string
		want want
	}{
		{"a plain chat has the defaults", Chat, `{"model":"mete",` + hello + `}`, plain},
		{"white space is allowed everywhere", Chat, " {\n\"model\" :\t\"mete\" , \"messages\" : [ { \"role\" : \"user\" , \"content\" : \"hello\" } ] } \r\n", plain},
		{"members in any order", Chat, `{` + hello + `,"stream":true,"model":"mete"}`, but(func(w *want) { w.stream = true })},
		{"an escaped model name is decoded", Chat, `{"model":"m\u0065t\u0065",` + hello + `}`, plain},
		{"a surrogate pair in the model is decoded", Chat, `{"model":"a\ud83d\ude00\n",` + hello + `}`, but(func(w *want) { w.model = "a😀\n" })},
		{"an escaped member name is the same member", Chat, chatWith(`"str\u0065am":true`), but(func(w *want) { w.stream = true })},
		{"null means absent", Chat, chatWith(`"stream":null,"max_tokens":null,"n":null,"stop":null,"response_format":null,"temperature":null,"stream_options":null,"tools":null`), plain},
		{"max_tokens bounds the answer", Chat, chatWith(`"max_tokens":7`), but(func(w *want) { w.max = 7 })},
		{"max_completion_tokens wins, coming last", Chat, chatWith(`"max_tokens":7,"max_completion_tokens":9`), but(func(w *want) { w.max = 9 })},
		{"max_completion_tokens wins, coming first", Chat, chatWith(`"max_completion_tokens":9,"max_tokens":7`), but(func(w *want) { w.max = 9 })},
		{"a null max_completion_tokens does not win", Chat, chatWith(`"max_completion_tokens":null,"max_tokens":7`), but(func(w *want) { w.max = 7 })},
		{"max_tokens may be a whole float", Chat, chatWith(`"max_tokens":2.0,"n":2e0`), but(func(w *want) { w.max, w.n = 2, 2 })},
		{"completions do not know max_completion_tokens", Completions, `{"model":"mete","prompt":"hello","max_completion_tokens":"x","max_tokens":0}`, but(func(w *want) { w.max = 0 })},
		{"usage is asked for", Chat, chatWith(`"stream_options":{"x":[1],"include_usage":true}`), but(func(w *want) { w.usage = true })},
		{"usage is declined", Chat, chatWith(`"stream_options":{"include_usage":false}`), plain},
		{"empty stream options ask for nothing", Chat, chatWith(`"stream_options":{}`), plain},
		{"choices are counted", Chat, chatWith(`"n":3,"best_of":4`), but(func(w *want) { w.n, w.bestOf = 3, 4 })},
		{"borders of the ranges are inside", Chat, chatWith(`"temperature":2,"top_p":1.0,"stop":["a","b"],"response_format":{"type":"json_object"},"stream":false`), plain},
		{"tools are read by the model", Chat, chatWith(`"tools":[{}]`), but(func(w *want) { w.bytes = 9 })},
		{"unknown members pass unread, twice too", Chat, chatWith(`"seed":1e3,"x":{"y":[null,{}]},"x":[]`), plain},
		{"every role", Chat, withMessages(`[{"role":"system","content":"he"},{"role":"developer","content":""},{"role":"tool","content":"l"},{"role":"assistant","content":"l"},{"role":"function","content":"o"}]`), plain},
		{"an escaped role", Chat, withMessages(`[{"role":"us\u0065r","content":"hello"}]`), plain},
		{"an assistant that calls tools needs no content", Chat, withMessages(`[{"role":"assistant","content":null,"tool_calls":[ ]}]`), but(func(w *want) { w.bytes = 3 })},
		{"an assistant that only thought needs no content", Chat, withMessages(`[{"reasoning":"hmm","role":"assistant"}]`), plain},
		{"text parts count, inline media do not", Chat, withMessages(`[{"role":"user","content":[{"type":"text","text":"abc"},{"image_url":{"url":"data:xxxxxxxx"},"type":"image_url"},{"type":"input_audio","input_audio":{"data":"AAAA"}}]}]`), but(func(w *want) { w.media = 2 })},
		{"a null image is none", Chat, withMessages(`[{"role":"user","content":[{"type":"text","text":"abc","image_url":null}]}]`), plain},
		{"a prompt", Completions, `{"model":"mete","prompt":"hello"}`, plain},
		{"several prompts", Completions, `{"model":"mete","prompt":["hel","lo"]}`, but(func(w *want) { w.prompts = 2 })},
		{"one prompt of token ids", Completions, `{"model":"mete","prompt":[1,22,3]}`, but(func(w *want) { w.bytes, w.ids = 0, 3 })},
		{"several prompts of token ids", Embeddings, `{"model":"mete","input":[[1,22],[],[3]]}`, but(func(w *want) { w.prompts, w.bytes, w.ids = 3, 0, 3 })},
		{"prompts as embeddings", Completions, `{"model":"mete","prompt_embeds":["AAAA","AAAA"]}`, but(func(w *want) { w.prompts, w.bytes = 2, 0 })},
		{"embeddings of a chat", Embeddings, `{"model":"mete",` + hello + `}`, plain},
		{"other endpoints: the largest spelling counts, the rest is not looked at", Other, `{"model":"mete","max_output_tokens":9,"max_tokens":7,"messages":1,"stream":true,"temperature":"x"}`, but(func(w *want) { w.max, w.stream, w.bytes = 9, true, 0 })},
	}
	var s Scan // reused, so that a row also shows what the last one left behind
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if err := s.Parse(r.kind, []byte(r.body)); err != nil {
				t.Fatal(err)
			}
			got := want{string(s.Model), s.Stream, s.IncludeUsage, s.MaxTokens, s.N, s.BestOf, s.Prompts, s.PromptBytes, s.PromptTokens, s.Media}
			if got != r.want {
				t.Errorf("\ngot  %+v\nwant %+v", got, r.want)
			}
		})
	}
}

func TestParseNotesForbiddenMembers(t *testing.T) {
	rows := []struct {
		more             string
		priority, params bool
	}{
		{`"priority":0`, true, false},
		{`"priority":null,"kv_transfer_params":null,"vllm_xargs":{"other":1}`, false, false},
		{`"kv_transfer_params":{"do_remote_prefill":true}`, false, true},
		{`"\u006bv_transfer_params":{}`, false, true},
		{`"ec_transfer_params":{}`, false, true},
		{`"vllm_xargs":{"a":[1],"kv_transfer_par\u0061ms":"x"}`, false, true},
	}
	for _, r := range rows {
		for kind := Chat; kind <= Other; kind++ {
			var s Scan
			body := `{"model":"m","messages":[{"role":"user","content":""}],"prompt":"","input":"",` + r.more + `}`
			if err := s.Parse(kind, []byte(body)); err != nil {
				t.Fatal(r.more, err)
			}
			if s.Priority != r.priority || s.KVTransferParams != r.params {
				t.Errorf("kind %d: %s: priority %v, params %v", kind, r.more, s.Priority, s.KVTransferParams)
			}
		}
	}
}

func TestParseKeepsPlaces(t *testing.T) {
	body := `{"model": "mete" ,"messages":[ {"role":"user","content":"x"} ],"cache_salt":"pepper"}`
	var s Scan
	if err := s.Parse(Chat, []byte(body)); err != nil {
		t.Fatal(err)
	}
	for want, at := range map[string]Span{`"mete"`: s.ModelAt, `[ {"role":"user","content":"x"} ]`: s.Prompt, `"pepper"`: s.CacheSalt} {
		if got := body[at.Start:at.End]; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	s.Reset()
	if s.lex.b != nil || s.Model != nil || s.MaxTokens != -1 {
		t.Error("reset does not let go of the body")
	}
}

func TestFitsWindow(t *testing.T) {
	rows := []struct{ more, param string }{
		{`"n":1`, ""},
		{`"max_tokens":100`, ""},
		{`"max_tokens":101`, "max_tokens"},
		{`"max_tokens":5,"max_completion_tokens":101`, "max_completion_tokens"},
		{`"max_tokens":101,"max_completion_tokens":5`, ""},
	}
	for _, r := range rows {
		var s Scan
		if err := s.Parse(Chat, []byte(chatWith(r.more))); err != nil {
			t.Fatal(err)
		}
		var f *Fault
		got := ""
		if errors.As(s.FitsWindow(100), &f) {
			got = f.Param
			if f.Status != 400 || !strings.Contains(f.Message, "100 tokens") {
				t.Errorf("%+v", f)
			}
		}
		if got != r.param {
			t.Errorf("%s: blamed %q, want %q", r.more, got, r.param)
		}
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	bodies := corpus()
	bodies["escaped names"] = []byte(`{"mod\u0065l":"m\u0065te","messages":[{"rol\u0065":"us\u0065r","cont\u0065nt":"x"}],"max_tok\u0065ns":1.5e1}`)
	thinking, err := NewMember("chat_template_kwargs", []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	var s Scan
	var out [][]byte
	model, members := []byte(`"up"`), []Member{thinking}
	for name, body := range bodies {
		n := testing.AllocsPerRun(5, func() {
			if err := s.Parse(kindOf(name), body); err != nil {
				t.Fatal(err)
			}
			out = s.Splice(out[:0], model, members)
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestParseBoundsWhatItKeeps(t *testing.T) {
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"x%d":%d,`, i, i)
		}
		return chatWith(b.String() + `"y":0`)
	}
	var s Scan
	if err := s.Parse(Chat, []byte(many(maxMembers-3))); err != nil {
		t.Error(err)
	}
	if err := s.Parse(Chat, []byte(many(maxMembers-2))); err == nil {
		t.Error("one member too many is accepted")
	}
	deep := func(n int) []byte { return []byte(chatWith(`"x":` + strings.Repeat("[", n) + strings.Repeat("]", n))) }
	if err := s.Parse(Chat, deep(maxDepth-1)); err != nil {
		t.Error(err)
	}
	for _, n := range []int{maxDepth, 1 << 20} {
		if err := s.Parse(Chat, deep(n)); err == nil {
			t.Errorf("%d levels are accepted", n)
		}
	}
}

func TestParseStopsAtTheFirstFault(t *testing.T) {
	for _, first := range []string{`"n":0`, `"messages":[{"role":"user","content":"","x":[{}]},{"role":"nobody","content":""}]`} {
		var s Scan
		head := `{` + first
		if err := s.Parse(Chat, []byte(head+`,"x":[`+strings.Repeat("1,", 1000)+`1],"model":"m"}`)); err == nil {
			t.Fatal("accepted")
		}
		if s.lex.i > len(head) {
			t.Errorf("read on to byte %d behind %s", s.lex.i, head)
		}
	}
}
