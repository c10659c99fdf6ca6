package auth

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

const (
	// KeyBytes is the length of every key: "sk-", the service word, "-", and
	// 40 hex digits, which are 160 random bits.
	KeyBytes = 48

	prefixBytes = len("sk-") + serviceBytes + len("-")
	randomBytes = (KeyBytes - prefixBytes) / 2

	serviceBytes = 4
)

// Format is the shape of one service's keys. It is a value, safe to copy and
// to use from many goroutines.
type Format struct{ prefix string }

// NewFormat returns the shape of the keys of service, which must be exactly
// four lower-case letters; package config has checked that, so anything else
// is a mistake in the program and panics.
func NewFormat(service string) Format {
	if !isService(service) {
		panic(fmt.Sprintf("auth: service word %q is not four lower-case letters", service))
	}
	return Format{prefix: "sk-" + service + "-"}
}

// Prefix returns what every key starts with, "sk-mete-" for instance.
func (f Format) Prefix() string { return f.prefix }

// Check returns ErrMalformed unless key has the service's prefix, the right
// length, and nothing but lower-case hex after the prefix. It comes before any
// hashing or look-up, keeps nothing of key and does not allocate.
func (f Format) Check(key []byte) error {
	if len(key) != KeyBytes || string(key[:prefixBytes]) != f.prefix {
		return ErrMalformed
	}
	for _, c := range key[prefixBytes:] {
		if !isLowerHex(c) {
			return ErrMalformed
		}
	}
	return nil
}

// New makes a key from the system's random source.
func (f Format) New() (string, error) {
	var random [randomBytes]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", fmt.Errorf("random key: %w", err)
	}
	return f.prefix + hex.EncodeToString(random[:]), nil
}

func isService(s string) bool {
	if len(s) != serviceBytes {
		return false
	}
	for _, c := range []byte(s) {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

func isLowerHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f'
}
