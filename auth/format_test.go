package auth

import (
	"errors"
	"regexp"
	"testing"
)

const goodKey = "sk-mete-0123456789abcdef0123456789abcdef01234567"

func TestCheckAcceptsTheExactShapeOnly(t *testing.T) {
	format := NewFormat("mete")
	for _, row := range []struct {
		name, key string
		ok        bool
	}{
		{"a key is accepted", goodKey, true},
		{"nothing is refused", "", false},
		{"one digit too few is refused", goodKey[:47], false},
		{"one digit too many is refused", goodKey + "0", false},
		{"an upper-case digit is refused", "sk-mete-0123456789ABCDEF0123456789abcdef01234567", false},
		{"a letter beyond f is refused", "sk-mete-0123456789abcdeg0123456789abcdef01234567", false},
		{"another service's key is refused", "sk-abcd-0123456789abcdef0123456789abcdef01234567", false},
		{"an upper-case prefix is refused", "SK-mete-0123456789abcdef0123456789abcdef01234567", false},
		{"a NUL as a digit is refused", "sk-mete-0123456789abcdef0123456789abcdef0123456\x00", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := format.Check([]byte(row.key))
			if row.ok && err != nil || !row.ok && !errors.Is(err, ErrMalformed) {
				t.Fatalf("Check gave %v", err)
			}
		})
	}
}

func TestNewKeysPassCheckAndDiffer(t *testing.T) {
	format, seen := NewFormat("mete"), map[string]bool{}
	for range 100 {
		key, err := format.New()
		if err != nil {
			t.Fatal(err)
		}
		if err := format.Check([]byte(key)); err != nil || seen[key] {
			t.Fatalf("a new key is malformed or was made before: %v", err)
		}
		seen[key] = true
	}
}

func TestNewFormatPanicsOnAnythingButFourLowerCaseLetters(t *testing.T) {
	for _, service := range []string{"", "abc", "abcde", "Mete", "met1"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was taken as a service word", service)
				}
			}()
			NewFormat(service)
		}()
	}
}

func FuzzFormatCheck(f *testing.F) {
	shape := regexp.MustCompile(`\Ask-mete-[0-9a-f]{40}\z`)
	for _, seed := range []string{goodKey, goodKey[:47], goodKey + "\n", "", "sk-mete-"} {
		f.Add([]byte(seed))
	}
	format := NewFormat("mete")
	f.Fuzz(func(t *testing.T, key []byte) {
		if got, want := format.Check(key) == nil, shape.Match(key); got != want {
			t.Fatalf("Check(%q) accepts: %v, want %v", key, got, want)
		}
	})
}
