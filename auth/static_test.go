package auth

import (
	"strings"
	"testing"
)

func TestStaticKeysAreFoundByTheirHash(t *testing.T) {
	hash, next := Hash([]byte(goodKey)), Hash([]byte("another key"))
	static, err := NewStatic([]StaticKey{
		{Name: "ci", Plan: "unlimited", SHA256: hash},
		{Name: "ci", Owner: "builders", Plan: "free", SHA256: next},
	})
	if err != nil || static.Len() != 2 {
		t.Fatal(err)
	}
	want := Caller{KeyID: "s_" + hash.Hex()[:16], Name: "ci", Owner: "ci", Plan: "unlimited", Static: true}
	if got, ok := static.Find(hash); !ok || got != want {
		t.Fatalf("found %+v", got)
	}
	if got, ok := static.Find(next); !ok || got.Owner != "builders" {
		t.Fatalf("found %+v", got)
	}
	if _, ok := static.Find(Hash([]byte("no such key"))); ok {
		t.Fatal("an unknown key was found")
	}
}

func TestBadStaticKeysAreRefused(t *testing.T) {
	hash := Hash([]byte(goodKey))
	for _, row := range []struct {
		name string
		keys []StaticKey
		want string
	}{
		{"one key twice", []StaticKey{{Name: "a", SHA256: hash}, {Name: "b", SHA256: hash}}, `static key "b": its sha256 is given twice`},
		{"a bad owner", []StaticKey{{Name: "a", Owner: "}", SHA256: hash}}, `static key "a": owner: may hold`},
		{"a name that cannot serve as owner", []StaticKey{{Name: "a b", SHA256: hash}}, `static key "a b": owner: may hold`},
	} {
		t.Run(row.name, func(t *testing.T) {
			if _, err := NewStatic(row.keys); err == nil || !strings.HasPrefix(err.Error(), row.want) {
				t.Fatalf("error is %v", err)
			}
		})
	}
}

func TestLayoutNamesAreTheContractOfDocGo(t *testing.T) {
	l := NewLayout("mete")
	for got, want := range map[string]string{
		l.Digest(Digest{0xab}):    "mete:digest:ab" + strings.Repeat("0", 62),
		l.Owner("ann"):            "mete:{ann}:",
		l.Key("ann", "k_1"):       "mete:{ann}:key:k_1",
		l.KeyIDs("ann"):           "mete:{ann}:keys",
		l.Owners():                "mete:owners",
		l.OwnerOf("k_1"):          "mete:keyid:k_1",
		l.Marker():                "mete:marker",
		JoinDigestValue("a", "b"): "a b",
	} {
		if got != want {
			t.Errorf("name is %q, want %q", got, want)
		}
	}
}

func FuzzSplitDigestValue(f *testing.F) {
	for _, seed := range []string{"k_0123456789abcdef ann", "k_0123456789abcdef", " ", "k_0123456789abcdef a}b", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		id, owner, ok := SplitDigestValue(value)
		if ok && (JoinDigestValue(id, owner) != value || CheckOwner(owner) != nil || !isKeyID(id)) {
			t.Fatalf("%q became %q and %q", value, id, owner)
		}
	})
}
