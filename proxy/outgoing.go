package proxy

import (
	"net"
	"sync"

	"mete/proxy/body"
)

// joinBelow is the size in bytes up to which head and body are copied together
// and sent in one plain write; above it they are sent from where they are.
const joinBelow = 16 << 10

// outgoing is a request on its way to a replica.
type outgoing struct {
	head     []byte
	segments [][]byte
	vector   net.Buffers
}

var outgoings = sync.Pool{New: func() any { return &outgoing{head: make([]byte, 0, 1<<10)} }}

// acquireOutgoing returns an empty outgoing; it must be released.
func acquireOutgoing() *outgoing { return outgoings.Get().(*outgoing) }

func (o *outgoing) release() {
	clear(o.segments)
	clear(o.vector[:cap(o.vector)])
	o.head, o.segments, o.vector = o.head[:0], o.segments[:0], o.vector[:0]
	if cap(o.head) <= 2*joinBelow {
		outgoings.Put(o)
	}
}

// writeTo sends everything, in one system call where that is possible.
func (o *outgoing) writeTo(c net.Conn) error {
	if body.Len(o.segments) <= joinBelow {
		for _, s := range o.segments {
			o.head = append(o.head, s...)
		}
		_, err := c.Write(o.head)
		return err
	}
	o.vector = append(append(o.vector, o.head), o.segments...)
	v := o.vector // WriteTo consumes its receiver
	_, err := v.WriteTo(c)
	return err
}
