package sim

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever arrives and leaves, blocks are neither lost nor shared by accident,
// and everything that stays is finished.
func TestEngineKeepsItsBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Profile{StepBase: ms, BlockSize: 4, Blocks: 40, MaxSeqs: 5, BatchTokens: 16, Delay: time.Duration(rapid.IntRange(0, 3).Draw(t, "delay")) * ms}
		e := NewEngine(p)
		var live []*Sequence
		now, finished := time.Duration(0), 0
		for range rapid.IntRange(1, 60).Draw(t, "ops") {
			now += time.Duration(rapid.IntRange(0, 4).Draw(t, "step")) * ms
			for _, ev := range e.Advance(now, nil) {
				if ev.Done {
					finished++
				}
			}
			if len(live) > 0 && rapid.IntRange(0, 4).Draw(t, "abort?") == 0 {
				if e.Abort(live[rapid.IntRange(0, len(live)-1).Draw(t, "which")]) {
					finished++
				}
			} else {
				n := rapid.IntRange(1, 60).Draw(t, "prompt")
				text := strings.Repeat(rapid.SampledFrom([]string{"x ", "y "}).Draw(t, "word"), n)
				s, err := e.Submit(now, Job{Prompt: n, Output: rapid.IntRange(0, 80).Draw(t, "output"), Blocks: BlockHashes(text, 4, 0)})
				if err != nil {
					t.Fatal(err)
				}
				live = append(live, s)
			}
			checkBlocks(t, e)
		}
		for at, ok := e.Next(); ok; at, ok = e.Next() {
			for _, ev := range e.Advance(at, nil) {
				if ev.Done {
					finished++
				}
			}
			checkBlocks(t, e)
		}
		if finished != len(live) {
			t.Fatalf("%d of %d jobs ended", finished, len(live))
		}
	})
}

func checkBlocks(t *rapid.T, e *Engine) {
	refs := make([]int32, len(e.cache.blocks))
	for _, s := range e.running {
		for _, id := range s.blocks {
			refs[id]++
		}
	}
	free := 0
	for id := 1; id < len(refs); id++ {
		if e.cache.blocks[id].refs != refs[id] {
			t.Fatalf("block %d: %d references counted, %d held", id, e.cache.blocks[id].refs, refs[id])
		}
		if refs[id] == 0 {
			free++
		}
	}
	if free != e.cache.free {
		t.Fatalf("%d blocks free, %d counted", free, e.cache.free)
	}
	if len(e.running) > e.p.MaxSeqs {
		t.Fatalf("%d sequences run", len(e.running))
	}
}
