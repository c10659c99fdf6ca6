package body

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// corpus is what BenchmarkScan reads: about 1 MiB each, but the short one.
func corpus() map[string][]byte {
	const mib = 1 << 20
	fill := func(s string) string { return strings.Repeat(s, mib/len(s)) }
	chat := func(content string) []byte {
		return []byte(`{"model":"mete","messages":[{"role":"system","content":"Be brief."},` +
			`{"role":"user","content":` + content + `}],"stream":true,"max_tokens":512,"temperature":0.7}`)
	}
	prose := "It was the best of times, it was the worst of times, it was the age of wisdom. "
	code := `if err != nil {\n\t\treturn fmt.Errorf(\"read %q: %w\", name, err)\n\t}\n`
	image := base64.StdEncoding.EncodeToString([]byte(fill("\x89PNG\xff\x00\x17 pixels")))
	return map[string][]byte{
		"short":    chat(`"What is the capital of France?"`),
		"prose":    chat(`"` + fill(prose) + `"`),
		"escapes":  chat(`"` + fill(code) + `"`),
		"unicode":  chat(`"` + fill("Съешь ещё этих мягких французских булок. 天地玄黄，宇宙洪荒。") + `"`),
		"uXXXX":    chat(`"` + fill(`\u0421\u044a\u0435\u0448\u044c \u4f60\u597d \ud83d\ude00 `) + `"`),
		"image":    chat(`[{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + image + `"}}]`),
		"turns200": chat(`"hi"},` + turns(prose)),
		"tokens":   []byte(`{"model":"mete","input":[` + fill("1024,31999,7,") + `0]}`),
	}
}

func turns(prose string) string {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, `{"role":"assistant","content":"%d. %s\n\n"},{"role":"user","content":"%s","name":"u"},`, i, strings.Repeat(prose, 100), strings.Repeat(prose, 30))
	}
	return b.String() + `{"role":"user","content":"go on"`
}

func kindOf(name string) Kind {
	if name == "tokens" {
		return Embeddings
	}
	return Chat
}

func BenchmarkScan(b *testing.B) {
	for name, body := range corpus() {
		b.Run(name, func(b *testing.B) {
			var s Scan
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Parse(kindOf(name), body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSplice(b *testing.B) {
	body := corpus()["prose"]
	thinking, err := NewMember("chat_template_kwargs", []byte(`{"enable_thinking":true}`))
	if err != nil {
		b.Fatal(err)
	}
	var s Scan
	if err := s.Parse(Chat, body); err != nil {
		b.Fatal(err)
	}
	var out [][]byte
	b.ReportAllocs()
	for b.Loop() {
		out = s.Splice(out[:0], []byte(`"meta-llama/Llama-3"`), []Member{thinking})
	}
	if !bytes.Contains(bytes.Join(out, nil), []byte(`"model":"meta-llama/Llama-3"`)) {
		b.Fatal("the model is not replaced")
	}
}
