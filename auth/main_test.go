package auth

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// go-redis sleeps a second between dials and ends that goroutine by itself.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

func testPeppers(t testing.TB) *Peppers {
	t.Helper()
	peppers, err := NewPeppers(Pepper{Version: 7, Secret: []byte("a pepper for tests")})
	if err != nil {
		t.Fatal(err)
	}
	return peppers
}

func testStore(t testing.TB, rdb redis.UniversalClient) *Store {
	t.Helper()
	return NewStore(rdb, "mete", testPeppers(t))
}

func testRequest() Request {
	return Request{Name: "laptop", Owner: "ann@example.com", Plan: "free", Origin: FromCLI}
}

func mustCreate(t testing.TB, s *Store, r Request) (string, Key) {
	t.Helper()
	plaintext, key, err := s.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return plaintext, key
}

// admit finds a key as the request path does: from the plaintext alone, by the
// names and rules of doc.go.
func admit(t testing.TB, s *Store, plaintext string) (Key, error) {
	t.Helper()
	if err := s.format.Check([]byte(plaintext)); err != nil {
		return Key{}, err
	}
	for _, digest := range s.peppers.Digests([]byte(plaintext)) {
		value, err := s.rdb.Get(t.Context(), s.layout.Digest(digest)).Result()
		if err == redis.Nil {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		id, owner, ok := SplitDigestValue(value)
		if !ok {
			t.Fatalf("digest holds %q", value)
		}
		keys, err := s.read(t.Context(), []ref{{owner: owner, id: id}})
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 {
			return Key{}, ErrStore
		}
		return keys[0], keys[0].dead()
	}
	return Key{}, ErrUnknown
}

// makeExpired moves a key's expiry into the past, which saves tests waiting.
func makeExpired(t testing.TB, s *Store, k Key) {
	t.Helper()
	past := strconv.FormatInt(time.Now().Add(-time.Hour).UnixMilli(), 10)
	if err := s.rdb.HSet(t.Context(), s.layout.Key(k.Owner, k.ID), FieldExpires, past).Err(); err != nil {
		t.Fatal(err)
	}
}
