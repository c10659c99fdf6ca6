package sim

import (
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// The tokenizer is a stand-in: a token is a run of at most 8 letters or 3
// digits with the blank before it, or one other character. That gives about
// 4.5 bytes a token on English prose, as real vocabularies do, and cuts the
// words of our own answers where the answers were put together, so that a chat
// whose history holds an answer of ours finds it in the KV cache.

const (
	maxLetters = 8
	maxDigits  = 3
	// imageTokens is what an image costs, whatever its bytes.
	imageTokens = 576
)

// CountTokens returns how many tokens the simulator takes text for.
func CountTokens(text string) int {
	n := 0
	for i := 0; i < len(text); n++ {
		i = tokenEnd(text, i)
	}
	return n
}

// BlockHashes cuts text into blocks of blockSize tokens and returns one hash
// for each full block. As in vLLM a hash covers the block and everything
// before it; salt stands for what else must differ (adapter, cache_salt).
func BlockHashes(text string, blockSize int, salt uint64) []uint64 {
	var hashes []uint64
	parent, start, n := salt, 0, 0
	for i := 0; i < len(text); {
		i = tokenEnd(text, i)
		if n++; n == blockSize {
			parent = mix(parent ^ bits.RotateLeft64(xxhash.Sum64String(text[start:i]), 17))
			hashes = append(hashes, parent)
			start, n = i, 0
		}
	}
	return hashes
}

// tokenIDs gives each token of text a stable number below vLLM's usual
// vocabulary size.
func tokenIDs(text string) []int {
	ids := []int{}
	for i := 0; i < len(text); {
		end := tokenEnd(text, i)
		ids = append(ids, int(xxhash.Sum64String(text[i:end])%128000))
		i = end
	}
	return ids
}

// tokenEnd returns where the token that starts at i ends.
func tokenEnd(text string, i int) int {
	if text[i] == ' ' && i+1 < len(text) && classOf[text[i+1]] != other {
		i++
	}
	class, limit := classOf[text[i]], i+maxLetters
	switch class {
	case other:
		return i + 1
	case digit:
		limit = i + maxDigits
	}
	limit = min(limit, len(text))
	i++
	for i < limit && classOf[text[i]] == class {
		i++
	}
	return i
}

type class byte

const (
	other class = iota
	letter
	digit
)

// classOf is filled once; bytes of multi-byte characters count as letters.
var classOf = func() (table [256]class) {
	for b := range table {
		switch {
		case b >= '0' && b <= '9':
			table[b] = digit
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= 0x80:
			table[b] = letter
		}
	}
	return table
}()

// mix is splitmix64's finalizer: a bijection in which every bit of the input
// moves every bit of the output.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// random is a splitmix64 stream. The zero value is a valid seed.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	return mix(uint64(*r))
}

// below returns a number in [0, n).
func (r *random) below(n int) int {
	hi, _ := bits.Mul64(r.next(), uint64(n))
	return int(hi)
}

// unit returns a number in [-1, 1).
func (r *random) unit() float64 {
	return float64(r.next()>>11)/(1<<52) - 1
}
