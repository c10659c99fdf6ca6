package console

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

// Parameters of argon2id, the least that OWASP names: 19 MiB, 2 passes.
const (
	hashMemory = 19 * 1024 // KiB
	hashPasses = 2
	hashBytes  = 32
	saltBytes  = 16

	minPassword = 12 // characters
	maxPassword = 256

	// hashesAtOnce bounds what a flood of sign-ins may take of memory.
	hashesAtOnce = 4
)

// hasher makes and checks argon2id hashes, a few at a time.
type hasher struct {
	slots chan struct{}
	dummy string // a hash that no password gives
}

func newHasher() *hasher {
	h := &hasher{slots: make(chan struct{}, hashesAtOnce)}
	h.dummy = encodeHash(make([]byte, saltBytes), make([]byte, hashBytes))
	return h
}

// hash returns the hash in the usual text form, with its parameters.
func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltBytes)
	if _, err := rand.Read(salt); err != nil {
		return "", fmt.Errorf("random salt: %w", err)
	}
	sum, err := h.sum(ctx, password, salt, hashMemory, hashPasses)
	if err != nil {
		return "", err
	}
	return encodeHash(salt, sum), nil
}

// matches takes as long for an account that does not exist, whose hash is empty.
func (h *hasher) matches(ctx context.Context, password, hash string) (bool, error) {
	known := hash != ""
	if !known {
		hash = h.dummy
	}
	salt, want, memory, passes, err := decodeHash(hash)
	if err != nil {
		return false, err
	}
	got, err := h.sum(ctx, password, salt, memory, passes)
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(got, want) == 1 && known, nil
}

func (h *hasher) sum(ctx context.Context, password string, salt []byte, memory, passes uint32) ([]byte, error) {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return argon2.IDKey([]byte(password), salt, passes, memory, 1, hashBytes), nil
}

func encodeHash(salt, sum []byte) string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=1$%s$%s", argon2.Version, hashMemory, hashPasses, b64.EncodeToString(salt), b64.EncodeToString(sum))
}

// decodeHash reads the parameters back, so that they can be raised later.
func decodeHash(text string) (salt, sum []byte, memory, passes uint32, err error) {
	bad := fmt.Errorf("password hash has another form")
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return nil, nil, 0, 0, bad
	}
	if n, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=1", &memory, &passes); n != 2 || err != nil {
		return nil, nil, 0, 0, bad
	}
	if memory == 0 || memory > 1<<20 || passes == 0 || passes > 16 {
		return nil, nil, 0, 0, bad
	}
	salt, err = base64.RawStdEncoding.DecodeString(parts[4])
	if err != nil {
		return nil, nil, 0, 0, bad
	}
	sum, err = base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil || len(sum) != hashBytes {
		return nil, nil, 0, 0, bad
	}
	return salt, sum, memory, passes, nil
}

// checkPassword says what is wrong with a new password, or nothing.
func checkPassword(password, owner string) string {
	switch {
	case !utf8.ValidString(password) || utf8.RuneCountInString(password) < minPassword:
		return fmt.Sprintf("Choose a password of at least %d characters.", minPassword)
	case len(password) > maxPassword:
		return fmt.Sprintf("Choose a password of at most %d bytes.", maxPassword)
	case strings.Contains(strings.ToLower(password), strings.ToLower(owner)):
		return "Choose a password that does not contain the name of the account."
	}
	return ""
}
