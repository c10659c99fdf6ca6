package auth

import (
	"errors"
	"fmt"
)

// What a look-up of a key can end with, besides success. The first four speak
// of the key and become a 401. ErrStore speaks of us and must never become one:
// clients throw a key away when they read 401.
var (
	ErrMalformed = errors.New("key is malformed")
	ErrUnknown   = errors.New("key is unknown")
	ErrExpired   = errors.New("key has expired")
	ErrRevoked   = errors.New("key is revoked")
	ErrStore     = errors.New("key store cannot say")
)

// Invalid is the error for a field of a request that the store cannot accept.
// Reason never repeats the value: somebody may have pasted a key into it.
type Invalid struct {
	Param  string // the field's name in the key API, "name" for instance
	Reason string
}

func (e *Invalid) Error() string { return fmt.Sprintf("%s: %s", e.Param, e.Reason) }
