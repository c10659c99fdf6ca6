package body

import (
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// BlockBytes is how many bytes of a prompt, as the JSON has it, make one block.
const BlockBytes = 256

// mostBlocks bounds the blocks of one prompt: of its first 128 KiB.
const mostBlocks = 512

// Blocks returns the chained hashes of the prompt's full blocks: each covers all
// before it, and seed, cache_salt and the tools, which vLLM's templates put in
// front. Equal hashes mean prompts that begin alike, down to how their JSON is
// written; a chat's next turn begins with the turn before it, whole. Embeddings,
// and bodies that are not understood, have none.
//
// The slice is the Scan's own, good until Reset.
func (s *Scan) Blocks(seed uint64) []uint64 {
	if s.kind > Completions || s.blocks != nil {
		return s.blocks
	}
	text := s.lex.b[s.Prompt.Start:s.Prompt.End]
	n := min(len(text)/BlockBytes, mostBlocks)
	if n == 0 {
		return nil
	}
	hash := seed ^ xxhash.Sum64(s.lex.b[s.CacheSalt.Start:s.CacheSalt.End])
	for _, m := range s.members {
		if string(s.lex.b[m.name.Start:m.name.End]) == "tools" {
			hash = chain(hash, s.lex.b[m.value.Start:m.value.End])
		}
	}
	s.blocks = s.hashes[:0]
	for i := range n {
		hash = chain(hash, text[i*BlockBytes:(i+1)*BlockBytes])
		s.blocks = append(s.blocks, hash)
	}
	s.hashes = s.blocks
	return s.blocks
}

// chain hashes b behind what hash stands for.
func chain(hash uint64, b []byte) uint64 {
	high, low := bits.Mul64(hash^0x9e3779b97f4a7c15, xxhash.Sum64(b)|1)
	return high ^ low
}
