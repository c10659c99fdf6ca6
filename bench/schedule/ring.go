package schedule

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// points is how many places a replica has on the ring: KubeAI's default.
const points = 256

// ring is a consistent hash ring, sorted by hash.
type ring []place

type place struct {
	hash uint64
	node *node
}

func newRing(replicas []*node) ring {
	r := make(ring, 0, len(replicas)*points)
	for _, n := range replicas {
		name := xxhash.Sum64String(n.url)
		for i := range uint64(points) {
			r = append(r, place{mix(name + i), n})
		}
	}
	slices.SortFunc(r, func(a, b place) int { return cmp.Compare(a.hash, b.hash) })
	return r
}

// walk goes round from the key to the first replica with room, or if there is
// none to the first.
func (r ring) walk(key uint64, room func(*node) bool) *node {
	start, _ := slices.BinarySearchFunc(r, key, func(p place, k uint64) int { return cmp.Compare(p.hash, k) })
	for i := range r {
		if n := r[(start+i)%len(r)].node; room(n) {
			return n
		}
	}
	return r[start%len(r)].node
}
