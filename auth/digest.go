package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
)

// Digest is what stands for a key wherever it is stored or compared.
type Digest [sha256.Size]byte

// Hex returns d as 64 lower-case hex digits.
func (d Digest) Hex() string { return hex.EncodeToString(d[:]) }

// AppendHex appends d's 64 lower-case hex digits to dst.
func (d Digest) AppendHex(dst []byte) []byte { return hex.AppendEncode(dst, d[:]) }

// Hash is the plain SHA-256 of a key, by which static keys are written into
// the configuration.
func Hash(key []byte) Digest { return sha256.Sum256(key) }

// Pepper is one secret under which keys are digested. Whoever can write the
// store but does not have the pepper cannot plant the digest of a key of theirs.
type Pepper struct {
	Version int // 1 and up; the highest version makes new keys
	Secret  []byte
}

// MinPepperBytes is the least length of a pepper's secret.
const MinPepperBytes = 16

// RandomPepper makes the pepper of a store that lives no longer than the
// process, the embedded one. A store that outlives it needs a pepper that does too.
func RandomPepper() (Pepper, error) {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return Pepper{}, fmt.Errorf("random pepper: %w", err)
	}
	return Pepper{Version: 1, Secret: secret}, nil
}

// Peppers are all peppers under which keys of the store may lie, newest first.
// A Peppers is immutable and safe for use from many goroutines.
type Peppers struct{ list []keyedHash }

// NewPeppers checks and orders peppers: at least one, versions from 1 up and
// each only once, secrets no shorter than MinPepperBytes. Errors name
// the version and never the secret.
func NewPeppers(peppers ...Pepper) (*Peppers, error) {
	if len(peppers) == 0 {
		return nil, fmt.Errorf("peppers: none given")
	}
	p := &Peppers{}
	for _, pepper := range peppers {
		if err := p.add(pepper); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(p.list, func(a, b keyedHash) int { return b.version - a.version })
	return p, nil
}

// Version is the version of the newest pepper.
func (p *Peppers) Version() int { return p.list[0].version }

// Digest returns key's digest under the newest pepper. It does not allocate.
func (p *Peppers) Digest(key []byte) Digest { return p.list[0].sum(key) }

// Digests yields key's digest under every pepper, newest first, each with its
// pepper's version. A digest is computed only when the loop asks for it.
func (p *Peppers) Digests(key []byte) iter.Seq2[int, Digest] {
	return func(yield func(int, Digest) bool) {
		for i := range p.list {
			if !yield(p.list[i].version, p.list[i].sum(key)) {
				return
			}
		}
	}
}

func (p *Peppers) add(pepper Pepper) error {
	if pepper.Version < 1 {
		return fmt.Errorf("pepper version %d: versions start at 1", pepper.Version)
	}
	if len(pepper.Secret) < MinPepperBytes {
		return fmt.Errorf("pepper version %d: shorter than %d bytes", pepper.Version, MinPepperBytes)
	}
	if slices.ContainsFunc(p.list, func(k keyedHash) bool { return k.version == pepper.Version }) {
		return fmt.Errorf("pepper version %d: given twice", pepper.Version)
	}
	p.list = append(p.list, newKeyedHash(pepper))
	return nil
}

// keyedHash is HMAC-SHA-256 (RFC 2104) for short messages. crypto/hmac would
// need a pool to avoid allocating, and a pool that the collector empties.
type keyedHash struct {
	version      int
	inner, outer [sha256.BlockSize]byte // the secret, padded, xored with 0x36 and 0x5c
}

func newKeyedHash(pepper Pepper) keyedHash {
	secret := pepper.Secret
	if len(secret) > sha256.BlockSize {
		hashed := sha256.Sum256(secret)
		secret = hashed[:]
	}
	k := keyedHash{version: pepper.Version}
	copy(k.inner[:], secret)
	copy(k.outer[:], secret)
	for i := range k.inner {
		k.inner[i] ^= 0x36
		k.outer[i] ^= 0x5c
	}
	return k
}

// sum takes keys that passed Format.Check: nothing longer than KeyBytes.
func (k *keyedHash) sum(key []byte) Digest {
	var block [sha256.BlockSize + KeyBytes]byte
	n := copy(block[:], k.inner[:])
	n += copy(block[n:], key)
	inner := sha256.Sum256(block[:n])
	n = copy(block[:], k.outer[:])
	n += copy(block[n:], inner[:])
	return sha256.Sum256(block[:n])
}
