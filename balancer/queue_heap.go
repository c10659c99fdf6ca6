package balancer

// heapOf is a binary heap whose elements know their place in it, so that any of
// them can be taken out in O(log n).
type heapOf[T any] struct {
	list []T
	less func(a, b T) bool
	note func(e T, place int) // keeps an element's place; -1 when it is out
}

func (h *heapOf[T]) len() int { return len(h.list) }

// first is the least; the heap must not be empty.
func (h *heapOf[T]) first() T { return h.list[0] }

func (h *heapOf[T]) push(e T) {
	h.list = append(h.list, e)
	h.note(e, len(h.list)-1)
	h.up(len(h.list) - 1)
}

// remove takes out the element at a place.
func (h *heapOf[T]) remove(place int) {
	var none T
	last := len(h.list) - 1
	h.note(h.list[place], -1)
	if place != last {
		h.list[place] = h.list[last]
		h.note(h.list[place], place)
	}
	h.list[last] = none // for the collector
	h.list = h.list[:last]
	if place != last {
		h.fix(place)
	}
}

// fix restores the order after the element at a place has changed.
func (h *heapOf[T]) fix(place int) {
	if !h.down(place) {
		h.up(place)
	}
}

func (h *heapOf[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(h.list[i], h.list[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *heapOf[T]) down(i int) (moved bool) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h.list); child++ {
			if h.less(h.list[child], h.list[least]) {
				least = child
			}
		}
		if least == i {
			return moved
		}
		h.swap(i, least)
		i, moved = least, true
	}
}

func (h *heapOf[T]) swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.note(h.list[i], i)
	h.note(h.list[j], j)
}
