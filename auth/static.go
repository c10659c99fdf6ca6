package auth

import (
	"fmt"
	"time"
)

// Caller is who a key stands for. It holds nothing secret and may be logged.
type Caller struct {
	KeyID   string
	Name    string
	Owner   string
	Plan    string
	Last4   string    // the key's last four digits; empty for a static key
	Expires time.Time // zero: never
	Static  bool      // the key is written in the configuration, not in the store
}

// StaticKey is a key from the configuration.
type StaticKey struct {
	Name, Owner, Plan string
	SHA256            Digest // the plain hash of the key
}

// Static is the table of the configuration's keys. It is immutable; a reload
// builds a new one.
type Static struct{ callers map[Digest]Caller }

// NewStatic builds the table. Two keys may share name and owner, so that one
// can follow the other; the same key twice is an error.
func NewStatic(keys []StaticKey) (*Static, error) {
	s := &Static{callers: make(map[Digest]Caller, len(keys))}
	for _, k := range keys {
		if _, taken := s.callers[k.SHA256]; taken {
			return nil, fmt.Errorf("static key %q: its sha256 is given twice", k.Name)
		}
		caller, err := k.caller()
		if err != nil {
			return nil, fmt.Errorf("static key %q: %w", k.Name, err)
		}
		s.callers[k.SHA256] = caller
	}
	return s, nil
}

// Find returns the caller whose key has this plain SHA-256. It does not
// allocate. The hash of a secret may be looked up in a map: whoever measures
// the time learns about hashes, from which no key can be built.
func (s *Static) Find(hash Digest) (Caller, bool) {
	caller, ok := s.callers[hash]
	return caller, ok
}

// Len is the number of static keys; with none, hashing can be left out.
func (s *Static) Len() int { return len(s.callers) }

// caller gives the key an id of its own from its hash, so that ids are stable
// over restarts and safe inside names of the store.
func (k StaticKey) caller() (Caller, error) {
	owner := k.Owner
	if owner == "" {
		owner = k.Name
	}
	if err := CheckOwner(owner); err != nil {
		return Caller{}, err
	}
	return Caller{
		KeyID: "s_" + k.SHA256.Hex()[:16], Name: k.Name, Owner: owner, Plan: k.Plan, Static: true,
	}, nil
}
