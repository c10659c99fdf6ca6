package devicecode

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
)

// Response is what a route answers.
type Response struct {
	Status int
	Header map[string]string
	Body   []byte
}

// codeAnswer is the device code record. Complete is RFC 8628's alone.
type codeAnswer struct {
	DeviceCode      string `json:"device_code"`
	UserCode        string `json:"user_code"`
	VerificationURI string `json:"verification_uri"`
	Complete        string `json:"verification_uri_complete,omitempty"`
	ExpiresIn       int64  `json:"expires_in"`
	Interval        int64  `json:"interval"`
}

// tokenAnswer is the device token record. Error and Interval stand in a pending
// one, so that a standard client, which takes a 200 without an error for a
// token, goes on polling.
type tokenAnswer struct {
	Status      string `json:"status,omitempty"`
	Error       string `json:"error,omitempty"`
	Interval    int64  `json:"interval,omitempty"`
	AccessToken string `json:"access_token,omitempty"`
	TokenType   string `json:"token_type,omitempty"`
	ExpiresIn   int64  `json:"expires_in,omitempty"`
	Scope       string `json:"scope,omitempty"`
}

type errorAnswer struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
	Interval    int64  `json:"interval,omitempty"`
}

var descriptions = map[Outcome]string{
	StillPending: "nobody has decided yet: poll again after interval seconds",
	TooFast:      "polled too soon: wait interval seconds between polls from now on",
	WasDenied:    "the request was denied",
	HasExpired:   "the code has expired: start again",
	WasUsed:      "the code is not known, or its key has been handed out: start again",
}

// answerPoll words the outcome of a poll. standard is RFC 8628's face.
func answerPoll(e entry, outcome Outcome, issued Issued, standard bool) Response {
	interval := seconds(e.Interval)
	switch {
	case outcome == Redeem:
		t := tokenAnswer{AccessToken: issued.Plaintext, TokenType: "bearer", ExpiresIn: seconds(issued.Life)}
		if standard {
			t.Scope = e.Approval.Plan
		} else {
			t.Status = "approved"
		}
		return ok(t)
	case outcome != StillPending && outcome != TooFast:
		return reply(http.StatusBadRequest, errorAnswer{Error: string(outcome), Description: descriptions[outcome]})
	case standard:
		return reply(http.StatusBadRequest, errorAnswer{string(outcome), descriptions[outcome], interval})
	}
	return ok(tokenAnswer{Status: "pending", Error: string(outcome), Interval: interval})
}

// refuse words an error. What says slow_down keeps a standard client polling.
func refuse(err error) Response {
	var bad *fault
	var many *TooMany
	switch {
	case errors.As(err, &bad):
		return reply(http.StatusBadRequest, errorAnswer{Error: bad.code, Description: bad.text})
	case errors.As(err, &many):
		r := reply(http.StatusTooManyRequests, errorAnswer{Error: "slow_down", Description: "too many requests: try again later"})
		r.Header["Retry-After"] = strconv.FormatInt(max(1, seconds(many.Wait)), 10)
		return r
	case errors.Is(err, errUnknown):
		return reply(http.StatusBadRequest, errorAnswer{Error: string(WasUsed), Description: descriptions[WasUsed]})
	case errors.Is(err, errTooLarge):
		return reply(http.StatusRequestEntityTooLarge, errorAnswer{Error: "invalid_request", Description: "the body is too large"})
	case errors.Is(err, errBasic):
		return reply(http.StatusUnauthorized, errorAnswer{Error: "invalid_client", Description: "clients have no password here: send client_id as a parameter"})
	case errors.Is(err, errMediaType):
		return reply(http.StatusUnsupportedMediaType, errorAnswer{Error: "invalid_request", Description: "send application/json or application/x-www-form-urlencoded"})
	}
	r := reply(http.StatusServiceUnavailable, errorAnswer{Error: "slow_down", Description: "the service cannot say at the moment: try again"})
	r.Header["Retry-After"] = "5"
	return r
}

func ok(value any) Response { return reply(http.StatusOK, value) }

func reply(status int, value any) Response {
	body, err := json.Marshal(value)
	if err != nil { // no answer holds anything that could fail
		panic(err)
	}
	return Response{status, map[string]string{
		"Content-Type": "application/json", "Cache-Control": "no-store", "Pragma": "no-cache",
	}, append(body, '\n')}
}
