package auth

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"strings"
	"testing"
)

func TestDigestIsHMACSHA256(t *testing.T) {
	for _, length := range []int{16, 32, 63, 64, 65, 200} {
		secret := bytes.Repeat([]byte{0xa5, 1, 2}, length)[:length]
		peppers, err := NewPeppers(Pepper{Version: 1, Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(goodKey))
		if got := peppers.Digest([]byte(goodKey)); !bytes.Equal(got[:], mac.Sum(nil)) {
			t.Fatalf("with a pepper of %d bytes the digest is not HMAC-SHA-256", length)
		}
	}
}

func TestDigestsComeNewestFirst(t *testing.T) {
	peppers, err := NewPeppers(
		Pepper{Version: 1, Secret: []byte("the first pepper")},
		Pepper{Version: 3, Secret: []byte("the third pepper")},
		Pepper{Version: 2, Secret: []byte("the other pepper")})
	if err != nil {
		t.Fatal(err)
	}
	var versions []int
	seen := map[Digest]bool{}
	for version, digest := range peppers.Digests([]byte(goodKey)) {
		if len(versions) == 0 && digest != peppers.Digest([]byte(goodKey)) {
			t.Fatal("the first digest is not the newest pepper's")
		}
		versions, seen[digest] = append(versions, version), true
	}
	if len(seen) != 3 || versions[0] != 3 || versions[1] != 2 || versions[2] != 1 || peppers.Version() != 3 {
		t.Fatalf("versions %v, %d digests", versions, len(seen))
	}
}

func TestBadPeppersAreRefusedWithoutNamingTheSecret(t *testing.T) {
	good := Pepper{Version: 1, Secret: []byte("a very good pepper")}
	for _, row := range []struct {
		name    string
		peppers []Pepper
	}{
		{"no pepper at all", nil},
		{"version 0", []Pepper{{Version: 0, Secret: good.Secret}}},
		{"a short secret", []Pepper{{Version: 1, Secret: []byte("short-secret")}}},
		{"one version twice", []Pepper{good, good}},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := NewPeppers(row.peppers...)
			if err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "good") {
				t.Fatalf("error is %v", err)
			}
		})
	}
}

func TestCheckingAndDigestingAllocateNothing(t *testing.T) {
	format := NewFormat("mete")
	peppers, err := NewPeppers(
		Pepper{Version: 1, Secret: []byte("the first pepper")},
		Pepper{Version: 2, Secret: []byte("the other pepper")})
	if err != nil {
		t.Fatal(err)
	}
	static, err := NewStatic([]StaticKey{{Name: "ci", SHA256: Hash([]byte(goodKey))}})
	if err != nil {
		t.Fatal(err)
	}
	key, hex := []byte(goodKey), make([]byte, 0, 64)
	allocs := testing.AllocsPerRun(1000, func() {
		if format.Check(key) != nil {
			t.Fatal("malformed")
		}
		if _, ok := static.Find(Hash(key)); !ok {
			t.Fatal("static key not found")
		}
		for _, digest := range peppers.Digests(key) {
			hex = digest.AppendHex(hex[:0])
		}
	})
	if allocs != 0 {
		t.Fatalf("%v allocations", allocs)
	}
}

func BenchmarkCheckAndDigest(b *testing.B) {
	format := NewFormat("mete")
	peppers, _ := NewPeppers(Pepper{Version: 1, Secret: []byte("the first pepper")})
	key := []byte(goodKey)
	b.ReportAllocs()
	for b.Loop() {
		if format.Check(key) != nil {
			b.Fatal("malformed")
		}
		peppers.Digest(key)
	}
}
