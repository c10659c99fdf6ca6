package balancer

import (
	"math"
	"time"
)

const (
	// placeTokens is what one request in flight weighs beside the prompt
	// tokens still to be prefilled: about one step of vLLM's default batch.
	placeTokens = 2048

	slowStart = 30 * time.Second // a new or recovered replica's way to its full share
	coldShare = 0.1              // of its share, at the beginning

	shareEvery = 500 * time.Millisecond // how often our share of the traffic is worked out

	kvWeight = 0.15 // of kv/(1-kv), the price of a cache that is running full
	kvMost   = 0.95 // beyond this the price grows no more
)

// score is the load that the replica would have with one more request of so
// many tokens, in prompt tokens, for its share of the pool. The least is best.
//
// Our own requests count fully and are never stale. What others have there is a
// moment old and the same for every gateway: if each gateway answered fully to
// it, together they would overshoot. So it counts for our share of the whole
// traffic, and less as it ages.
func (r *Replica) score(tokens int64, share float64, now int64) float64 {
	work := float64((r.inFlight.Load()+1)*placeTokens + r.prefill.Load() + tokens)
	if belief := r.signal.belief(now); belief > 0 {
		others := math.Float64frombits(r.signal.others.Load())
		work += belief * share * others * placeTokens
		if kv := math.Float64frombits(r.signal.kv.Load()); kv > 0 {
			kv = min(kv, kvMost)
			work *= 1 + belief*kvWeight*kv/(1-kv)
		}
	}
	return work / r.capacity(now)
}

// capacity is the replica's share beside the others': its weight, less during
// the slow start.
func (r *Replica) capacity(now int64) float64 {
	weight := float64(r.weight.Load())
	since := r.warming.Load()
	if since == 0 || now-since >= int64(slowStart) {
		return weight
	}
	return weight * max(coldShare, float64(now-since)/float64(slowStart))
}

// weighShare works out which part of the traffic on the pool's replicas is our
// own. With nothing of our own there we count as one request per replica.
func (p *Pool) weighShare() {
	now := p.clock()
	at := p.shareAt.Load()
	if at != 0 && now-at < int64(shareEvery) || !p.shareAt.CompareAndSwap(at, now) {
		return
	}
	own, others := 0.0, 0.0
	for _, r := range p.Replicas() {
		own += float64(max(r.inFlight.Load(), 1))
		if r.signal.belief(now) > 0 {
			others += math.Float64frombits(r.signal.others.Load())
		}
	}
	p.share.Store(math.Float64bits(own / (own + others)))
}
