package devicecode

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	// letters of user codes: no vowels, so no accidental words, and none that
	// is taken for another. 8 of 20 letters are 34.6 bits.
	letters      = "BCDFGHJKLMNPQRSTVWXZ"
	userLetters  = 8
	deviceDigits = 40 // 160 random bits
)

// newDeviceCode returns 40 random hex digits.
func newDeviceCode() (string, error) {
	var random [deviceDigits / 2]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", fmt.Errorf("random device code: %w", err)
	}
	return hex.EncodeToString(random[:]), nil
}

// newUserCode returns 8 random letters. Bytes that would favour some letters
// are thrown away.
func newUserCode() (string, error) {
	code := make([]byte, 0, userLetters)
	for len(code) < userLetters {
		var random [2 * userLetters]byte
		if _, err := rand.Read(random[:]); err != nil {
			return "", fmt.Errorf("random user code: %w", err)
		}
		for _, b := range random {
			if int(b) < 256-256%len(letters) && len(code) < userLetters {
				code = append(code, letters[int(b)%len(letters)])
			}
		}
	}
	return string(code), nil
}

// Show writes a user code as people read it: "WDJB-MJHT".
func Show(code string) string {
	if len(code) != userLetters {
		return code
	}
	return code[:userLetters/2] + "-" + code[userLetters/2:]
}

// Normalise reads a user code as people type it: in any case, with spaces and
// dashes anywhere. ok is false for what cannot be a code.
func Normalise(typed string) (code string, ok bool) {
	if len(typed) > 64 {
		return "", false
	}
	code = strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '\t' || r == '-' || r == '\u00a0' || '\u2010' <= r && r <= '\u2015':
			return -1
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		}
		return r
	}, strings.TrimSpace(typed))
	if len(code) != userLetters || strings.Trim(code, letters) != "" {
		return "", false
	}
	return code, true
}

func isDeviceCode(code string) bool {
	if len(code) != deviceDigits {
		return false
	}
	for _, c := range []byte(code) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// digestOf is what stands for a device code in the store. 160 random bits need
// no pepper; the seal of the record keeps others from planting one.
func digestOf(deviceCode string) string {
	digest := sha256.Sum256([]byte(deviceCode))
	return hex.EncodeToString(digest[:])
}
