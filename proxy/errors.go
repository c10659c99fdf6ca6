package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"mete/auth"
	"mete/balancer"
	"mete/limits"
	"mete/proxy/body"
)

// A refusal is an error that the gateway itself answers with. The codes are a
// closed list, which the README documents.
type refusal struct {
	status     int
	kind       string // OpenAI's error type
	code       string
	param      string // the member at fault, "" for none
	message    string
	retryAfter time.Duration // when a retry may succeed, 0 for no advice
	final      bool          // a retry is useless, though the status says otherwise
	fault      fault
}

func (r *refusal) Error() string { return r.code + ": " + r.message }

// fault says who is to blame for an exchange that did not succeed.
type fault string

const (
	faultNone    fault = ""
	faultCaller  fault = "caller"
	faultLimit   fault = "limit"
	faultReplica fault = "replica"
	faultGateway fault = "gateway"
	faultStore   fault = "store"
)

var faults = []fault{faultCaller, faultLimit, faultReplica, faultGateway, faultStore}

// OpenAI's error types.
const (
	invalidRequest = "invalid_request_error"
	authentication = "authentication_error"
	permission     = "permission_error"
	rateLimit      = "rate_limit_error"
	serverError    = "server_error"
)

// Causes with which an exchange is cancelled.
var (
	errClientLeft = errors.New("the client has left")
	errDraining   = errors.New("the gateway is stopping")
)

func callerRefusal(status int, code, param, message string) *refusal {
	return &refusal{status: status, kind: invalidRequest, code: code, param: param, message: message, fault: faultCaller}
}

var (
	refuseNoKey = &refusal{status: 401, kind: authentication, code: "missing_api_key", fault: faultCaller,
		message: "No API key was sent. Send it in the header: Authorization: Bearer <key>."}
	refuseTwoKeys = &refusal{status: 400, kind: invalidRequest, code: "malformed_request", fault: faultCaller,
		message: "The request has more than one Authorization header. Send exactly one."}
	refuseBadKey = &refusal{status: 401, kind: authentication, code: "invalid_api_key", fault: faultCaller,
		message: "The API key is not valid. Check that it was copied whole."}
	refuseExpiredKey = &refusal{status: 401, kind: authentication, code: "expired_api_key", fault: faultCaller,
		message: "The API key has expired. Create a new one."}
	refuseRevokedKey = &refusal{status: 401, kind: authentication, code: "revoked_api_key", fault: faultCaller,
		message: "The API key was revoked. Create a new one."}
	refuseStore = &refusal{status: 503, kind: serverError, code: "store_unavailable", fault: faultStore, retryAfter: 2 * time.Second,
		message: "The gateway cannot check API keys right now. The key may be fine; try again shortly."}
	refuseNoReplica = &refusal{status: 503, kind: serverError, code: "no_replica", fault: faultReplica, retryAfter: 2 * time.Second,
		message: "No replica can serve this model right now. Try again shortly."}
	refuseBusy = &refusal{status: 503, kind: serverError, code: "replicas_busy", fault: faultReplica, retryAfter: 2 * time.Second,
		message: "Every replica's queue is full right now. Try again shortly."}
	refuseOverload = &refusal{status: 503, kind: serverError, code: "gateway_overloaded", fault: faultGateway, retryAfter: time.Second,
		message: "The gateway holds as many requests as it may. Try again shortly."}
	refuseConnections = &refusal{status: 503, kind: serverError, code: "gateway_overloaded", fault: faultGateway, retryAfter: time.Second,
		message: "The gateway holds as many connections as it may. Try again shortly."}
	refuseAddress = &refusal{status: 429, kind: rateLimit, code: "too_many_connections", fault: faultLimit, retryAfter: time.Second,
		message: "Your address holds as many connections, or requests by a proxy, as it may. Close some, or try again shortly."}
	refuseDraining = &refusal{status: 503, kind: serverError, code: "shutting_down", fault: faultGateway, retryAfter: time.Second,
		message: "This gateway is stopping. Try again; another one will answer."}
	refuseInternal = &refusal{status: 500, kind: serverError, code: "internal_error", fault: faultGateway,
		message: "The gateway made a mistake. It was logged under this request's id."}
	refuseReplicaFailed = &refusal{status: 502, kind: serverError, code: "replica_failed", fault: faultReplica,
		message: "The replica that was to answer failed. Try again."}
	refuseReplicaTimeout = &refusal{status: 504, kind: serverError, code: "replica_timeout", fault: faultReplica, final: true,
		message: "The replica did not answer in time."}
	refuseBodyTimeout = &refusal{status: 408, kind: invalidRequest, code: "request_timeout", fault: faultCaller,
		message: "The request's body did not arrive in time."}
	refuseClientLeft = &refusal{status: 499, kind: invalidRequest, code: "client_left", fault: faultCaller,
		message: "The client closed the connection before the answer was there."}
	refuseHalfBody = callerRefusal(400, "malformed_request", "", "The request's body ended early or its framing is broken.")
)

// refusalFor turns any error of the request path into what the client is told.
func refusalFor(err error) *refusal {
	var (
		known    *refusal
		fault    *body.Fault
		exceeded *limits.Exceeded
		tooLarge *limits.TooLarge
		denied   *limits.ModelDenied
		answered *replicaError
		full     *balancer.Busy
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, errClientLeft):
		return refuseClientLeft
	case errors.Is(err, errDraining):
		return refuseDraining
	case errors.As(err, &fault):
		return callerRefusal(fault.Status, fault.Code, fault.Param, fault.Message)
	case errors.As(err, &exceeded):
		return refuseExceeded(exceeded)
	case errors.As(err, &tooLarge):
		return callerRefusal(400, "request_too_large_for_limit", "max_tokens", sentence(tooLarge))
	case errors.As(err, &denied):
		return &refusal{status: 403, kind: permission, code: "model_not_allowed", param: "model", message: sentence(denied), fault: faultCaller}
	case errors.As(err, &answered):
		return answered.refusal()
	case errors.As(err, &full):
		return refuseFull(full)
	}
	return refusalForSentinel(err)
}

func refusalForSentinel(err error) *refusal {
	switch {
	case errors.Is(err, auth.ErrMalformed), errors.Is(err, auth.ErrUnknown):
		return refuseBadKey
	case errors.Is(err, auth.ErrExpired):
		return refuseExpiredKey
	case errors.Is(err, auth.ErrRevoked):
		return refuseRevokedKey
	case errors.Is(err, auth.ErrStore):
		return refuseStore
	case errors.Is(err, balancer.ErrNoReplica):
		return refuseNoReplica
	case outOfDescriptors(err):
		return refuseOverload
	case errors.As(err, new(*dialError)):
		return refuseReplicaFailed
	case isTimeout(err):
		return refuseReplicaTimeout
	case errors.As(err, new(*upstreamError)):
		return refuseReplicaFailed
	}
	return refuseInternal
}

func refuseExceeded(e *limits.Exceeded) *refusal {
	return &refusal{status: 429, kind: rateLimit, code: "rate_limit_exceeded", message: sentence(e), retryAfter: e.RetryAfter, fault: faultLimit}
}

// refuseFull tells when it is worth to come again. Who has left no room for
// himself gets a 429; all others are refused for our want of replicas.
func refuseFull(b *balancer.Busy) *refusal {
	if b.Own {
		return &refusal{status: 429, kind: rateLimit, code: "rate_limit_exceeded", message: "Too many of your requests wait for a replica.", retryAfter: b.RetryAfter, fault: faultLimit}
	}
	return &refusal{status: 503, kind: serverError, code: "replicas_busy", message: "Every replica is busy, and the wait would be too long. Try again later.", retryAfter: b.RetryAfter, fault: faultReplica}
}

// sentence makes a message for people of an error text.
func sentence(err error) string {
	text := []byte(err.Error())
	if text[0] >= 'a' && text[0] <= 'z' {
		text[0] -= 'a' - 'A'
	}
	return string(append(text, '.'))
}

// upstreamError is a failure on the connection to a replica after it was
// opened.
type upstreamError struct {
	doing string
	err   error
	quiet bool // no byte of the answer had come
}

func (e *upstreamError) Error() string { return fmt.Sprintf("%s: %v", e.doing, e.err) }
func (e *upstreamError) Unwrap() error { return e.err }

func isTimeout(err error) bool {
	var n net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &n) && n.Timeout()
}
