package balancer

import (
	"math"
	"time"
)

const (
	// placeTokens is what one request in flight weighs beside the prompt tokens
	// still to be computed: what its decoding adds to the steps until then. From
	// 100 to 400 the simulations differ by less than their seeds do.
	placeTokens = 200.0
	stepTokens  = 333.0 // what every answer waits for: a step of the batch
	// computePrice is what a token that has to be computed weighs beside one that
	// waits already: it delays those who come after, too, and pushes another out of
	// the cache.
	computePrice = 1.5

	slowStart = 30 * time.Second // a new or recovered replica's way to its full share
	coldShare = 0.1              // of its share, at the beginning

	shareEvery = 500 * time.Millisecond // how often our share of the traffic is worked out

	kvWeight = 0.15 // of kv/(1-kv), the price of a cache that is running full
	kvMost   = 0.95 // beyond this the price grows no more
)

// work is what lies before the first token of one more request, in prompt
// tokens.
type work struct {
	step   float64 // that every answer waits for
	places float64 // our requests there, which decode in the same steps
	queued float64 // prompts that we have sent there and that wait to be computed
	others float64 // what other gateways have there, as far as it is known
	prompt float64 // this one's, as far as it has to be computed
	full   float64 // factor, from 1, for a cache that is running full
}

func (w *work) total() float64 {
	return (w.step + w.places + w.queued + w.others + w.prompt) * w.full
}

// workOf is what lies before the first token of a request of which so many
// tokens have to be computed.
//
// Our own requests count fully and are never stale. What others have there is a
// moment old and the same for every gateway: if each gateway answered fully to
// it, together they would overshoot. So it counts for our share of the whole
// traffic, and less as it ages.
func (r *Replica) workOf(tokens, share float64, now int64) work {
	w := work{
		step: stepTokens, places: float64(r.inFlight.Load()) * placeTokens, queued: float64(r.prefill.Load()),
		prompt: computePrice * tokens, full: 1,
	}
	if belief := r.signal.belief(now); belief > 0 {
		w.others = belief * share * math.Float64frombits(r.signal.others.Load()) * placeTokens
		if kv := math.Float64frombits(r.signal.kv.Load()); kv > 0 {
			kv = min(kv, kvMost)
			w.full += belief * kvWeight * kv / (1 - kv)
		}
	}
	return w
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
