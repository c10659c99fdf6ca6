package proxy

import (
	"bytes"
	"errors"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"mete/balancer"
	"mete/config"
)

// maxAttempts is how many replicas one request may be sent to.
const maxAttempts = 2

// giveUp ends an attempt that has failed. It returns nil when another replica
// may be tried, else what the client is to be told.
func (x *exchange) giveUp(err error) error {
	outcome := outcomeOf(err)
	x.g.metrics.attempt(x.model.pool, outcome)
	x.endTry(outcome, err)
	x.replica = x.lease.Replica().ID
	x.lease.Done(outcome)
	x.failure = err
	if x.attempts < maxAttempts && x.mayFailOver(outcome) {
		x.model.pool.metrics.retries[outcome].Inc()
		return nil
	}
	return err
}

// mayFailOver reports whether another replica may be tried: the client is still
// there, and the pool's budget for retries allows it. An answer that is not
// streamed is never repeated for being slow, since its first byte comes after
// the whole generation.
func (x *exchange) mayFailOver(outcome balancer.Outcome) bool {
	if x.cancelled() != nil || outcome == balancer.TimedOut && !x.stream {
		return false
	}
	return x.model.pool.MayRetry(outcome)
}

// need says what this request asks of a replica.
func (x *exchange) need() balancer.Need {
	need := balancer.Need{
		Tokens: x.prompt, Blocks: x.scan.Blocks(x.model.seed), Model: x.model.adapter, Output: x.expected(), Turn: x.turn(),
	}
	for i := range x.tries {
		need.Avoid[i] = x.tries[i].replica
	}
	return need
}

// expected is how long the answer is likely to be, in tokens.
func (x *exchange) expected() int64 {
	usual := int64(x.grant.Plan.DefaultTokens)
	if x.most >= 0 {
		return min(x.most, usual) // most answers end by themselves
	}
	return usual
}

// turn says how the request waits when all replicas are full.
func (x *exchange) turn() balancer.Turn {
	plan := x.grant.Plan
	t := balancer.Turn{Caller: x.caller.Owner, Weight: plan.Weight, Priority: plan.Priority, Wait: plan.QueueWait}
	switch plan.QueuePolicy {
	case config.QueueNeverRefuses:
		t.Wait = balancer.Forever
	case config.QueueRefuses:
		t.Wait = 0
	}
	return t
}

// endTry notes how the attempt that is under way has ended.
func (x *exchange) endTry(o balancer.Outcome, failure error) {
	t := &x.tries[x.attempts-1]
	t.outcome, t.failure, t.end = o, failure, time.Since(x.began)
}

// outcomeOf tells whose fault a failed attempt was.
func outcomeOf(err error) balancer.Outcome {
	var answered *replicaError
	switch {
	case errors.Is(err, errClientLeft), errors.Is(err, errDraining):
		return balancer.ClientLeft
	case outOfDescriptors(err):
		return balancer.Unused
	case errors.As(err, new(*dialError)):
		return balancer.ConnectFailed
	case errors.As(err, &answered):
		return answered.outcome()
	case isTimeout(err):
		return balancer.TimedOut
	}
	return balancer.ReplicaFault
}

// replicaError is an error that a replica has answered with, in any of the
// shapes that vLLM has used.
type replicaError struct {
	status  int
	nested  []byte // the body, when it has OpenAI's shape: relayed as it is
	message string // otherwise
	kind    string
	param   string
}

// newReplicaError reads an error's body. A status of 0 is that of an event in a
// stream, and is taken from the event's code.
func newReplicaError(status int, b []byte) *replicaError {
	e := &replicaError{status: status}
	root := gjson.ParseBytes(b)
	if !gjson.ValidBytes(b) {
		root = gjson.Result{}
	}
	object := root.Get("error")
	switch {
	case object.IsObject():
		e.nested = bytes.Clone(b)
	case object.Type == gjson.String:
		e.message = object.String()
		object = gjson.Result{}
	default:
		object = root
	}
	if e.message == "" {
		e.message = object.Get("message").String()
	}
	e.kind, e.param = object.Get("type").String(), object.Get("param").String()
	if e.status == 0 {
		e.status = eventStatus(object.Get("code").Int())
	}
	return e
}

// eventStatus is the HTTP status for an error event's code.
func eventStatus(code int64) int {
	if code < 400 || code > 599 {
		return 500
	}
	return int(code)
}

func (e *replicaError) Error() string {
	return "replica answered with status " + strconv.Itoa(e.status)
}

// overloaded is the type that vLLM gives to a refusal for want of room. A
// replica that is dead or starting answers 503 without it.
const overloaded = "ServiceUnavailableError"

// outcome tells the breaker whose fault the error was.
func (e *replicaError) outcome() balancer.Outcome {
	switch {
	case e.status == 429, e.status == 503 && e.kind == overloaded:
		return balancer.QueueFull
	case e.status >= 500, e.status < 400, e.status == 401, e.status == 403:
		return balancer.ReplicaFault // a 401 is about the gateway's own key
	}
	return balancer.CallerError
}

// refusal is the answer for the client, where the replica's own body cannot be
// relayed as it is.
func (e *replicaError) refusal() *refusal {
	switch e.outcome() {
	case balancer.QueueFull:
		return refuseBusy
	case balancer.ReplicaFault:
		if e.status < 500 {
			return refuseReplicaFailed
		}
		return &refusal{status: e.status, kind: serverError, code: "replica_failed", message: e.text(), fault: faultReplica}
	}
	kind := e.kind
	if kind == "" {
		kind = invalidRequest
	}
	return &refusal{status: e.status, kind: kind, code: "replica_refused", param: e.param, message: e.text(), fault: faultCaller}
}

func (e *replicaError) text() string {
	if e.message == "" {
		return "The replica refused the request and gave no reason."
	}
	return e.message
}

// relayable reports whether the replica's own body is the answer.
func (e *replicaError) relayable() bool {
	if e.nested == nil || e.outcome() == balancer.QueueFull {
		return false
	}
	return e.status >= 400 && e.status != 401 && e.status != 403
}
