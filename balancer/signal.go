package balancer

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// signalLife is how long what a replica said of its load is believed.
const signalLife = 2 * time.Second

// Load is what a replica says of its load. A number that it did not say is
// negative.
type Load struct {
	Running float64 // requests in the batch, over all engines
	Waiting float64 // requests in the queue, over all engines
	KV      float64 // use of the KV cache, 0 to 1, the mean of the engines
}

// unsaid is the load of which nothing is known.
var unsaid = Load{Running: -1, Waiting: -1, KV: -1}

// signal keeps the last load that a replica told, and what of it is not our
// own doing. Its numbers are read one by one: a reader may see a mixture of two
// loads, which is no worse than a load that is a moment old.
type signal struct {
	at     atomic.Int64  // when it was told; 0 is never
	others atomic.Uint64 // float64: requests there that are not ours
	kv     atomic.Uint64 // float64: KV use, negative if unsaid

	mu     sync.Mutex // guards what follows, which only the explaining reads
	load   Load
	source string
	fault  string // why the last attempt to learn the load brought none
}

// told notes a load. Own is the number of our own requests that were there.
func (s *signal) told(load Load, own, now int64, source string) {
	others := max(load.Running, 0) + max(load.Waiting, 0) - float64(own)
	s.others.Store(math.Float64bits(max(others, 0)))
	s.kv.Store(math.Float64bits(load.KV))
	s.at.Store(now)
	s.mu.Lock()
	s.load, s.source, s.fault = load, source, ""
	s.mu.Unlock()
}

// missed notes why there was no load to be had.
func (s *signal) missed(why string) {
	s.mu.Lock()
	s.fault = why
	s.mu.Unlock()
}

// belief is how far the signal counts: 1 when fresh, 0 from signalLife on.
func (s *signal) belief(now int64) float64 {
	at := s.at.Load()
	if at == 0 {
		return 0
	}
	return max(0, 1-float64(now-at)/float64(signalLife))
}

// ObserveORCA takes in the load that a replica sent in the response header
// "endpoint-load-metrics", in the TEXT or the JSON form. It keeps nothing of
// header, allocates nothing, and ignores what it does not understand.
func (r *Replica) ObserveORCA(header []byte) {
	load := ParseORCA(header)
	if load.Waiting < 0 && load.KV < 0 {
		return
	}
	r.signal.told(load, r.inFlight.Load(), r.clock(), "orca")
	r.reach.told(load, r.inFlight.Load(), r.clock())
}
