package auth

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxNameBytes bounds names of keys, owners and plans. Redis keeps a hash in
// its compact encoding only while no value is longer than 64 bytes.
const MaxNameBytes = 64

const (
	idPrefix = "k_"
	idBytes  = 8
)

// CheckOwner returns an *Invalid unless owner is 1 to 64 of the characters
// A-Z a-z 0-9 . _ @ + -, which are safe between the braces of a hash tag.
func CheckOwner(owner string) error {
	if owner == "" || len(owner) > MaxNameBytes {
		return &Invalid{Param: "owner", Reason: "must have 1 to 64 characters"}
	}
	for _, c := range []byte(owner) {
		if !isOwnerByte(c) {
			return &Invalid{Param: "owner", Reason: "may hold letters, digits and . _ @ + - only"}
		}
	}
	return nil
}

// CheckName returns an *Invalid unless name is 1 to 64 bytes of printable text.
func CheckName(name string) error {
	if name == "" || len(name) > MaxNameBytes {
		return &Invalid{Param: "name", Reason: "must have 1 to 64 bytes"}
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return &Invalid{Param: "name", Reason: "must be printable text"}
	}
	return nil
}

func isOwnerByte(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' ||
		strings.IndexByte("._@+-", c) >= 0
}

func newKeyID() (string, error) {
	var random [idBytes]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", fmt.Errorf("random key id: %w", err)
	}
	return idPrefix + hex.EncodeToString(random[:]), nil
}

func isKeyID(id string) bool {
	digits, found := strings.CutPrefix(id, idPrefix)
	if !found || len(digits) != 2*idBytes {
		return false
	}
	for _, c := range []byte(digits) {
		if !isLowerHex(c) {
			return false
		}
	}
	return true
}
