package sim

// blockCache is the KV cache of one engine, after vLLM's block pool: a block
// that no sequence holds keeps its content and waits in a free list, oldest
// first, until a new block is needed or the same prefix comes again.
type blockCache struct {
	blocks []block
	byHash map[uint64]int32
	free   int
	reuse  bool
}

// block is a node of the free list while refs is 0. Node 0 is the list's
// anchor: its next is the block that is taken first.
type block struct {
	hash       uint64
	hashed     bool
	refs       int32
	prev, next int32
}

func newBlockCache(n int, reuse bool) *blockCache {
	c := &blockCache{blocks: make([]block, n+1), byHash: make(map[uint64]int32), reuse: reuse}
	for i := int32(1); i <= int32(n); i++ {
		c.pushFree(i)
	}
	return c
}

// usage returns the share of blocks that sequences hold, 0..1.
func (c *blockCache) usage() float64 {
	n := len(c.blocks) - 1
	return float64(n-c.free) / float64(n)
}

// match returns how many of the leading hashes are cached, and how many of
// those blocks nobody holds. It changes nothing.
func (c *blockCache) match(hashes []uint64) (hits, idle int) {
	if !c.reuse {
		return 0, 0
	}
	for _, h := range hashes {
		id, ok := c.byHash[h]
		if !ok {
			break
		}
		hits++
		if c.blocks[id].refs == 0 {
			idle++
		}
	}
	return hits, idle
}

// hold appends the cached blocks of hashes, which match has found, to ids.
func (c *blockCache) hold(hashes []uint64, ids []int32) []int32 {
	for _, h := range hashes {
		id := c.byHash[h]
		if c.blocks[id].refs == 0 {
			c.unlink(id)
		}
		c.blocks[id].refs++
		ids = append(ids, id)
	}
	return ids
}

// take returns the block that has been free for longest and forgets what it
// held. The caller has made sure that one is free.
func (c *blockCache) take() int32 {
	id := c.blocks[0].next
	c.unlink(id)
	b := &c.blocks[id]
	if b.hashed && c.byHash[b.hash] == id {
		delete(c.byHash, b.hash)
	}
	b.hashed, b.refs = false, 1
	return id
}

// name makes a full block findable. The first block with a hash keeps it.
func (c *blockCache) name(id int32, hash uint64) {
	if b := &c.blocks[id]; c.reuse && !b.hashed {
		b.hash, b.hashed = hash, true
		if _, taken := c.byHash[hash]; !taken {
			c.byHash[hash] = id
		}
	}
}

// release lets go of a sequence's blocks, the last one first, so that the end
// of a prefix is evicted before its beginning.
func (c *blockCache) release(ids []int32) {
	for i := len(ids) - 1; i >= 0; i-- {
		b := &c.blocks[ids[i]]
		if b.refs--; b.refs == 0 {
			c.pushFree(ids[i])
		}
	}
}

func (c *blockCache) pushFree(id int32) {
	last := c.blocks[0].prev
	c.blocks[id].prev, c.blocks[id].next = last, 0
	c.blocks[last].next, c.blocks[0].prev = id, id
	c.free++
}

func (c *blockCache) unlink(id int32) {
	b := &c.blocks[id]
	c.blocks[b.prev].next, c.blocks[b.next].prev = b.next, b.prev
	c.free--
}
