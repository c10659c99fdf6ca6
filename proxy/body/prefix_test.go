package body

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func blocksOf(t *testing.T, kind Kind, body string, seed uint64) []uint64 {
	t.Helper()
	var s Scan
	if err := s.Parse(kind, []byte(body)); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(s.Blocks(seed))
}

func TestPromptsThatBeginAlikeHaveLikeBlocks(t *testing.T) {
	const system = `{"role":"system","content":"%s"}`
	long := fmt.Sprintf(system, strings.Repeat("be brief and kind. ", 100)) // 1.9 KB
	chat := func(more, members string) string {
		return `{"model":"m",` + members + `"messages":[` + long + more + `]}`
	}
	first := chat(`,{"role":"user","content":"hello"}`, "")
	base := blocksOf(t, Chat, first, 1)
	if len(base) != 7 {
		t.Fatalf("%d blocks", len(base))
	}
	for name, c := range map[string]struct {
		body string
		seed uint64
		like int // leading blocks that are the same
	}{
		"the next turn":     {chat(`,{"role":"user","content":"hello"},{"role":"assistant","content":"`+strings.Repeat("well ", 200)+`"}`, ""), 1, 7},
		"another question":  {chat(`,{"role":"user","content":"`+strings.Repeat("why ", 200)+`"}`, ""), 1, 7},
		"other settings":    {chat(`,{"role":"user","content":"hello"}`, `"temperature":0.1,`), 1, 7},
		"another model":     {first, 2, 0},
		"another salt":      {chat(`,{"role":"user","content":"hello"}`, `"cache_salt":"x",`), 1, 0},
		"other tools":       {chat(`,{"role":"user","content":"hello"}`, `"tools":[{"type":"function","function":{"name":"f"}}],`), 1, 0},
		"another beginning": {strings.Replace(first, "be brief", "be wordy", 1), 1, 0},
		"another middle":    {first[:1100] + "X" + first[1101:], 1, 4},
	} {
		t.Run(name, func(t *testing.T) {
			got, like := blocksOf(t, Chat, c.body, c.seed), 0
			for like < min(len(got), len(base)) && got[like] == base[like] {
				like++
			}
			if like != c.like {
				t.Errorf("%d blocks are the same, want %d", like, c.like)
			}
		})
	}
}

func TestBlocksThatThereAreNot(t *testing.T) {
	if b := blocksOf(t, Chat, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, 1); len(b) != 0 {
		t.Errorf("a short prompt has %d", len(b))
	}
	if b := blocksOf(t, Embeddings, `{"model":"m","input":"`+strings.Repeat("x", 1000)+`"}`, 1); len(b) != 0 {
		t.Errorf("an embedding has %d", len(b))
	}
	if b := blocksOf(t, Completions, `{"model":"m","prompt":"`+strings.Repeat("x", 1<<20)+`"}`, 1); len(b) != mostBlocks {
		t.Errorf("a long prompt has %d", len(b))
	}
}

func BenchmarkBlocks(b *testing.B) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("it was the best of times, ", 5000) + `"}]}`)
	var s Scan
	if err := s.Parse(Chat, body); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(mostBlocks * BlockBytes)
	b.ReportAllocs()
	for b.Loop() {
		s.blocks = nil
		s.Blocks(1)
	}
}
