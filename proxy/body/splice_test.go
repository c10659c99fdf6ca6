package body

import (
	"bytes"
	"slices"
	"testing"
)

func newMember(t *testing.T, name, value string) Member {
	t.Helper()
	m, err := NewMember(name, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSplice(t *testing.T) {
	const kwargs = "chat_template_kwargs"
	think := newMember(t, kwargs, `{"enable_thinking":true}`)
	topK := newMember(t, "top_k", `20`)
	rows := []struct {
		name    string
		more    string // between the model and the end of the body
		model   string
		members []Member
		want    string // what stands in the place of more, and of the model
	}{
		{"nothing to do", ` , "a":1 `, ``, nil, `"mete" , "a":1 `},
		{"another model", ` , "a":1 `, `"up/stream"`, nil, `"up/stream" , "a":1 `},
		{"a member is added at the end", `,"a":1 `, ``, []Member{think}, `"mete","a":1 ,"chat_template_kwargs":{"enable_thinking":true}`},
		{"two are added", `,"a":1`, `"up"`, []Member{think, topK}, `"up","a":1,"chat_template_kwargs":{"enable_thinking":true},"top_k":20`},
		{"the client's is replaced where it stands", `,"top_k": [1, 2] ,"a":1`, `"up"`, []Member{topK}, `"up","top_k": 20 ,"a":1`},
		{"the client's is replaced at the very end, one more added", `,"top_k":1`, ``, []Member{topK, think}, `"mete","top_k":20,"chat_template_kwargs":{"enable_thinking":true}`},
		{"the client's escaped name counts", `,"\u0074\u006f\u0070\u005f\u006b":1`, ``, []Member{topK}, `"mete","\u0074\u006f\u0070\u005f\u006b":20`},
		{"all of the client's are replaced", `,"top_k":1,"a":2,"top\u005fk":null`, ``, []Member{topK}, `"mete","top_k":20,"a":2,"top\u005fk":20`},
		{"a nested one of that name stays", `,"a":{"top_k":1,"model":"x"}`, `"up"`, []Member{topK}, `"up","a":{"top_k":1,"model":"x"},"top_k":20`},
		{"a model's priority overrides the client's", `,"priority":-9`, ``, []Member{newMember(t, "priority", "0")}, `"mete","priority":0`},
	}
	var s Scan
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			head := `{` + hello + `,"model":`
			in := []byte(head + `"mete"` + r.more + "} \n")
			if err := s.Parse(Chat, in); err != nil {
				t.Fatal(err)
			}
			var model []byte
			if r.model != "" {
				model = []byte(r.model)
			}
			out := s.Splice(nil, model, r.members)
			if got, want := string(bytes.Join(out, nil)), head+r.want+"} \n"; got != want {
				t.Errorf("\ngot  %s\nwant %s", got, want)
			}
			if Len(out) != len(head+r.want+"} \n") {
				t.Errorf("length %d", Len(out))
			}
			if slices.ContainsFunc(out, func(b []byte) bool { return len(b) == 0 }) {
				t.Errorf("an empty segment in %q", out)
			}
			if r.model == "" && r.members == nil && (len(out) != 1 || &out[0][0] != &in[0]) {
				t.Error("the body was not passed on as it is")
			}
		})
	}
}

func TestNewMemberRefuses(t *testing.T) {
	rows := []struct{ name, value string }{
		{"model", `"x"`}, {"stream", `true`}, {"max_tokens", `1`}, {"messages", `[]`},
		{"a", ``}, {"a", `{`}, {"a", `1 2`}, {"a", `NaN`},
	}
	for _, r := range rows {
		if _, err := NewMember(r.name, []byte(r.value)); err == nil {
			t.Errorf("%s: %s is accepted", r.name, r.value)
		}
	}
}
