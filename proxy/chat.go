package proxy

import (
	"errors"
	"time"

	"mete/balancer"
	"mete/limits"
	"mete/proxy/body"
	"mete/proxy/trace"
)

// infer carries an inference request through the first six of the seven verbs;
// close settles, whatever comes of it.
func (x *exchange) infer(e *endpoint) error {
	x.endpoint, x.route = e, e.name
	if err := x.admit(); err != nil {
		return err
	}
	if err := x.identify(); err != nil {
		return err
	}
	if err := x.read(); err != nil {
		return err
	}
	x.watch()
	if err := x.reserve(); err != nil {
		return err
	}
	for {
		if err := x.acquire(); err != nil {
			return err
		}
		err := x.forward()
		if err == nil {
			return x.relay()
		}
		if err = x.giveUp(err); err != nil {
			return err
		}
	}
}

// identify checks the key's shape; nothing is looked up for a malformed one.
func (x *exchange) identify() error {
	if x.head.key == nil {
		return refuseNoKey
	}
	err := x.g.format.Check(x.head.key)
	x.stages.auth.took = time.Since(x.began)
	return err
}

// read takes in the body and finds what the gateway needs in it.
func (x *exchange) read() error {
	if err := x.checkContent(); err != nil {
		return err
	}
	if err := x.precheck(); err != nil {
		return err
	}
	if err := x.readBody(); err != nil {
		return err
	}
	x.scan = scans.Get().(*body.Scan)
	if err := x.scan.Parse(x.endpoint.kind, x.body.b); err != nil {
		return err
	}
	return x.findModel()
}

// watch notices from here on when the client leaves.
func (x *exchange) watch() {
	x.phase = phaseQueue
	x.peer = peerOf(x.ctx.Conn())
	if !x.peer.watch(x.left) {
		x.g.metrics.unwatched.Inc()
	}
}

// reserve asks the limiter: key state, the plan's models, every limit.
func (x *exchange) reserve() error {
	asked := time.Now()
	grant, err := x.g.limiter.Reserve(x.life, x.ask())
	x.stages.limit.ended(x, asked)
	if err != nil {
		x.noteRefused(err)
		return x.orGone(err)
	}
	x.grant, x.caller = grant, grant.Caller
	return x.checkFields()
}

// acquire leases a place on a replica that has not failed this request yet.
func (x *exchange) acquire() error {
	x.phase = phaseQueue
	asked := time.Now()
	if x.stream && !x.awaiting && x.failure == nil {
		x.awaiting = true
		x.model.metrics.awaited.begin(asked)
	}
	var err error
	x.lease, err = x.model.pool.Acquire(x.life, x.need())
	x.stages.queue.ended(x, asked)
	switch {
	case err == nil:
		return nil
	case x.failure != nil && errors.Is(err, balancer.ErrNoReplica):
		return x.failure // says more than that there is nobody else
	}
	return x.orGone(err)
}

// forward makes one attempt: it returns nil once the answer may be relayed.
func (x *exchange) forward() error {
	x.attempts++
	t := &x.tries[x.attempts-1]
	*t = try{replica: x.lease.Replica(), at: time.Since(x.began)}
	if x.trace.Sampled {
		t.id = trace.NewSpanID()
	}
	x.phase = phaseHeader
	if err := x.roundTrip(); err != nil {
		return err
	}
	x.phase = phaseFirst
	return x.admitAnswer()
}

// relay passes the answer on. Streams are relayed after the handler returns, by
// the response's body stream, which then owns the exchange.
func (x *exchange) relay() error {
	x.phase = phaseAnswer
	if x.answer.stream {
		x.lease.FirstToken()
	} else {
		x.lease.FirstByte()
	}
	if x.answer.whole {
		x.writeHead()
		return x.relayWhole()
	}
	length := int(x.answer.length)
	if x.answer.stream {
		length = -1 // in chunks, whatever the replica did: only those are flushed one by one
	}
	x.writeHead()
	if length < 0 && !x.ctx.Request.Header.IsHTTP11() {
		x.unframe()
	}
	x.releaseBody()
	x.relaying, x.streaming = true, true
	x.g.metrics.streams.Inc()
	x.ctx.Response.SetBodyStream((*relayStream)(x), length)
	return nil
}

// settle gives everything back and writes the exchange down, exactly once.
func (x *exchange) settle() {
	outcome := x.outcome()
	if x.grant != nil {
		x.used = x.usage()
		x.lease.Used(x.used.prompt + x.used.completion)
	}
	x.lease.Done(outcome)
	if x.grant != nil {
		x.settleGrant()
	}
	x.observe(outcome)
}

// settleGrant gives back what was reserved and not used, and everything when
// no replica has been sent the request.
func (x *exchange) settleGrant() {
	if !x.reached {
		x.grant.Refund()
		return
	}
	x.grant.Settle(limits.Usage{
		Prompt:     x.used.prompt,
		Completion: x.used.completion,
		TTFT:       x.stages.firstByte,
	})
}
