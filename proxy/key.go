package proxy

import (
	"encoding/json"
	"errors"
	"time"

	"mete/auth"
	"mete/limits"
)

// ownKey answers a caller about the key that it calls with: GET tells owner,
// plan and what is left of each limit, DELETE revokes it.
func (x *exchange) ownKey() error {
	if !x.ctx.IsGet() && !x.ctx.IsDelete() {
		return x.methodNotAllowed("GET, DELETE")
	}
	if err := x.identify(); err != nil {
		return err
	}
	status, err := x.g.limiter.Status(x.life, x.head.key)
	if err != nil {
		return x.orGone(err)
	}
	if x.ctx.IsDelete() {
		return x.revokeOwnKey(&status.Caller)
	}
	return x.answerValue(newKeyStatus(&status))
}

func (x *exchange) revokeOwnKey(c *auth.Caller) error {
	if c.Static || x.g.revoke == nil {
		return callerRefusal(409, "key_is_static", "", "This key stands in the gateway's configuration. Ask its operator to remove it.")
	}
	if err := x.g.revoke(x.life, c.KeyID); err != nil && !errors.Is(err, auth.ErrUnknown) {
		return err
	}
	return x.answerValue(map[string]any{"object": "key", "id": c.KeyID, "revoked": true})
}

func (x *exchange) answerValue(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	x.ctx.Response.Header.Set("Cache-Control", "no-store")
	return x.answerJSON(b)
}

// keyStatus is the answer to GET /v1/auth/key.
type keyStatus struct {
	Object  string     `json:"object"`
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	Owner   string     `json:"owner"`
	Plan    string     `json:"plan"`
	Expires *time.Time `json:"expires"` // null: never
	Limits  []keyLimit `json:"limits"`  // empty: unlimited
}

type keyLimit struct {
	Kind      limits.Kind `json:"kind"`
	Limit     int64       `json:"limit"`
	Remaining int64       `json:"remaining"`
	Per       string      `json:"per,omitempty"`   // length of the window
	Reset     string      `json:"reset,omitempty"` // until all of the limit is free again
}

func newKeyStatus(s *limits.Status) keyStatus {
	c := &s.Caller
	status := keyStatus{Object: "key", ID: c.KeyID, Name: c.Name, Owner: c.Owner, Plan: c.Plan, Limits: []keyLimit{}}
	if !c.Expires.IsZero() {
		status.Expires = &c.Expires
	}
	for _, left := range s.Limits {
		limit := keyLimit{Kind: left.Kind, Limit: left.Limit, Remaining: left.Remaining}
		if left.Per > 0 {
			limit.Per, limit.Reset = left.Per.String(), left.Reset.Round(time.Millisecond).String()
		}
		status.Limits = append(status.Limits, limit)
	}
	return status
}
