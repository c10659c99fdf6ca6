package balancer

import (
	"math/bits"
	"sync"
)

// BlockTokens is how many tokens of a prompt one hash of Need.Blocks stands for.
// A few of vLLM's own blocks of 16: the picture need not be finer, and each
// block costs a look-up.
const BlockTokens = 64

const (
	setWays  = 4       // entries among which the oldest makes room
	setCount = 1 << 15 // sets: 131,072 entries of 80 bytes, 10 MiB for a pool whose prompts share anything
	holders  = 8       // replicas that an entry remembers; of more, the last ones
	mostHits = 512     // blocks that are looked at: 32,768 tokens
	// keptBlocks is how much a replica can compute until a block that it has not used
	// since is gone: 320,000 tokens, about what an 80 GB card with an 8 B model keeps
	// beside what runs.
	keptBlocks = 320_000 / BlockTokens
)

// prefixes is the picture of which replica has lately computed which beginnings
// of prompts: bounded, and kept by this gateway alone. It may be wrong either
// way, which costs time and nothing else.
//
// A block is taken for evicted once the replica has computed as many new tokens
// since it last used it as its cache holds: about what vLLM's own eviction, the
// least recently used first, comes to. Time plays no part.
type prefixes struct {
	mu    sync.Mutex
	sets  []set // nil before the first prompt
	clock uint32
}

type set [setWays]entry

// entry is one block and those that hold it.
type entry struct {
	hash uint64
	used uint32 // prefixes.clock when it was
	by   [holders]holder
}

// holder says that a replica has a block, and how much it had computed when it
// last used it, in blocks.
type holder struct {
	replica uint16 // Replica.slot; 0 is nobody
	at      uint32
}

// match is how many leading blocks a replica is believed to hold.
type match struct {
	slot   uint16
	blocks int
}

// matches are the replicas that hold anything of a prompt.
type matches struct {
	n   int
	all [holders]match
}

// of is the number of leading blocks that the replica holds.
func (m *matches) of(r *Replica) int {
	for i := range m.n {
		if m.all[i].slot == r.slot {
			return m.all[i].blocks
		}
	}
	return 0
}

// look finds who holds how much of a prompt.
func (p *prefixes) look(blocks []uint64, found *matches, members *members) {
	found.n = 0
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sets == nil {
		return
	}
	for i, hash := range blocks[:min(len(blocks), mostHits)] {
		e := p.find(hash)
		if e == nil {
			return
		}
		held := 0
		for _, h := range e.by {
			r := members.at(h.replica)
			if r == nil || r.computed.Load()-h.at > keptBlocks {
				continue
			}
			if i == 0 {
				found.all[found.n] = match{slot: h.replica, blocks: 1}
				found.n++
				held++
				continue
			}
			for j := range found.n {
				if m := &found.all[j]; m.slot == h.replica && m.blocks == i {
					m.blocks++
					held++
				}
			}
		}
		if held == 0 {
			return
		}
	}
}

// note remembers that a replica computes a prompt.
func (p *prefixes) note(blocks []uint64, r *Replica) {
	at := r.computed.Load()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sets == nil {
		p.sets = make([]set, setCount)
	}
	p.clock++
	for _, hash := range blocks[:min(len(blocks), mostHits)] {
		e := p.findOrMake(hash)
		e.used = p.clock
		e.hold(holder{r.slot, at})
	}
}

// hold puts h first, and drops the one that has been there for longest.
func (e *entry) hold(h holder) {
	last := h
	for i := range e.by {
		e.by[i], last = last, e.by[i]
		if last.replica == h.replica || last.replica == 0 {
			return
		}
	}
}

func (p *prefixes) set(hash uint64) *set {
	high, _ := bits.Mul64(hash, setCount)
	return &p.sets[high]
}

func (p *prefixes) find(hash uint64) *entry {
	s := p.set(hash)
	for i := range s {
		if s[i].hash == hash {
			return &s[i]
		}
	}
	return nil
}

func (p *prefixes) findOrMake(hash uint64) *entry {
	s := p.set(hash)
	oldest := &s[0]
	for i := range s {
		if s[i].hash == hash {
			return &s[i]
		}
		if s[i].used < oldest.used {
			oldest = &s[i]
		}
	}
	*oldest = entry{hash: hash}
	return oldest
}

// home is how much a replica is the natural place of a prompt that nobody
// knows: the same on every gateway and after every restart, and for other
// replicas no other if one comes or goes (rendezvous hashing, Thaler and
// Ravishankar 1998).
func (r *Replica) home(block uint64) uint64 {
	x := block ^ r.hash
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}
