package limits

import "sync"

// generations is a bounded map that forgets what was not used for longest, in
// halves: what is used moves to the young half, and when that is full the old
// one goes. It holds between size and 2*size entries once it is full.
type generations[K comparable, V any] struct {
	size       int
	mu         sync.RWMutex
	young, old map[K]V
}

func newGenerations[K comparable, V any](size int) *generations[K, V] {
	return &generations[K, V]{size: size, young: map[K]V{}}
}

func (g *generations[K, V]) get(key K) (V, bool) {
	g.mu.RLock()
	value, ok := g.young[key]
	if ok {
		g.mu.RUnlock()
		return value, true
	}
	_, ok = g.old[key]
	g.mu.RUnlock()
	if !ok {
		return value, false
	}
	return g.refresh(key)
}

func (g *generations[K, V]) refresh(key K) (V, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	value, ok := g.old[key]
	if !ok {
		value, ok = g.young[key]
		return value, ok
	}
	g.insert(key, value)
	return value, true
}

func (g *generations[K, V]) put(key K, value V) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.insert(key, value)
}

func (g *generations[K, V]) insert(key K, value V) {
	if len(g.young) >= g.size {
		g.old, g.young = g.young, map[K]V{}
	}
	g.young[key] = value
	delete(g.old, key)
}

func (g *generations[K, V]) drop(key K) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.young, key)
	delete(g.old, key)
}
