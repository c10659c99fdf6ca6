package auth

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"strconv"
)

// Sealer marks records of the store so that whoever can write the store, but
// does not have a pepper, cannot make one or change one. It hides nothing.
type Sealer struct {
	peppers *Peppers
	purpose string
}

// Sealer returns a Sealer whose marks are of use for one purpose only.
func (p *Peppers) Sealer(purpose string) *Sealer { return &Sealer{peppers: p, purpose: purpose} }

// Seal marks content as what lies under name: "v<version>.<64 hex>." and then
// the content.
func (s *Sealer) Seal(name string, content []byte) []byte {
	sealed := append([]byte("v"), strconv.Itoa(s.peppers.Version())...)
	sealed = append(sealed, '.')
	sealed = s.mark(&s.peppers.list[0], name, content).AppendHex(sealed)
	sealed = append(sealed, '.')
	return append(sealed, content...)
}

// Open returns the content of what Seal made for the same name, under any of
// the peppers, and whether the mark is true.
func (s *Sealer) Open(name string, sealed []byte) ([]byte, bool) {
	head, rest, found := bytes.Cut(sealed, []byte("."))
	mark, content, found2 := bytes.Cut(rest, []byte("."))
	version, isVersion := bytes.CutPrefix(head, []byte("v"))
	if !found || !found2 || !isVersion {
		return nil, false
	}
	for i := range s.peppers.list {
		pepper := &s.peppers.list[i]
		if strconv.Itoa(pepper.version) != string(version) {
			continue
		}
		want := s.mark(pepper, name, content).Hex()
		return content, subtle.ConstantTimeCompare([]byte(want), mark) == 1
	}
	return nil, false
}

// Token is 64 hex digits that only this purpose and this text give: what a form
// carries to show that we made it.
func (s *Sealer) Token(text string) string {
	return s.mark(&s.peppers.list[0], "token", []byte(text)).Hex()
}

// Genuine reports whether Token gave this token for the text, under any of the
// peppers.
func (s *Sealer) Genuine(text, token string) bool {
	for i := range s.peppers.list {
		want := s.mark(&s.peppers.list[i], "token", []byte(text)).Hex()
		if subtle.ConstantTimeCompare([]byte(want), []byte(token)) == 1 {
			return true
		}
	}
	return false
}

// mark never equals a key's digest: no key starts with "seal".
func (s *Sealer) mark(pepper *keyedHash, name string, content []byte) Digest {
	inner := sha256.New()
	inner.Write(pepper.inner[:])
	for _, part := range []string{"seal", s.purpose, name} {
		inner.Write([]byte(part))
		inner.Write([]byte{0}) // no name holds it, so no two triples run together
	}
	inner.Write(content)
	outer := sha256.New()
	outer.Write(pepper.outer[:])
	outer.Write(inner.Sum(nil))
	return Digest(outer.Sum(nil))
}
