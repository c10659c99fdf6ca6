package auth

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// MinTokenBytes is the least length of the token that guards the key API.
const MinTokenBytes = 16

// ReadToken reads the key API's bearer token from a file, without the blanks
// and line ends around it. Errors name the file and never its content.
func ReadToken(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("admin token: %w", err)
	}
	token := bytes.TrimSpace(content)
	if len(token) < MinTokenBytes {
		return "", fmt.Errorf("admin token: %s holds fewer than %d characters", path, MinTokenBytes)
	}
	if bytes.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("admin token: %s holds something else than one word of ASCII", path)
	}
	return string(token), nil
}

// bears reports whether a request carries token. The time that it takes does
// not depend on how much of the token is right.
func bears(r *http.Request, token string) bool {
	given, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && found && token != ""
}

// RequireToken lets only requests with the admin token through to next; others
// get a 401. An empty token lets nobody in.
func RequireToken(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !bears(r, token) {
			errToken.write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}
