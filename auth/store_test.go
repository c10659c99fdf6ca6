package auth

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"mete/auth/redistest"
)

func TestACreatedKeyIsFoundByItsPlaintext(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := testStore(t, rdb)
		plaintext, made := mustCreate(t, s, testRequest())
		found, err := admit(t, s, plaintext)
		if err != nil || found != made {
			t.Fatalf("found %+v, %v; made %+v", found, err, made)
		}
		if made.State != Active || made.Pepper != 7 || made.Last4 != plaintext[44:] || !made.Expires.IsZero() {
			t.Fatalf("made %+v", made)
		}
		if age := time.Since(made.Created); age < -time.Minute || age > time.Minute {
			t.Fatalf("created %v ago", age)
		}
	})
}

func TestBadRequestsAreRefusedBeforeAnythingIsWritten(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := testStore(t, rdb)
		for _, row := range []struct {
			name, param string
			spoil       func(*Request)
		}{
			{"no name", "name", func(r *Request) { r.Name = "" }},
			{"a name that is too long", "name", func(r *Request) { r.Name = strings.Repeat("n", 65) }},
			{"a name with a line break", "name", func(r *Request) { r.Name = "a\nb" }},
			{"a name that is not UTF-8", "name", func(r *Request) { r.Name = "a\xff" }},
			{"a key as the name", "name", func(r *Request) { r.Name = goodKey }},
			{"no owner", "owner", func(r *Request) { r.Owner = "" }},
			{"an owner that closes the hash tag", "owner", func(r *Request) { r.Owner = "a}b" }},
			{"an owner with a blank", "owner", func(r *Request) { r.Owner = "a b" }},
			{"a key as the owner", "owner", func(r *Request) { r.Owner = goodKey }},
			{"no plan", "plan", func(r *Request) { r.Plan = "" }},
			{"a lifetime under a minute", "expires_in", func(r *Request) { r.Lifetime = time.Second }},
			{"a negative lifetime", "expires_in", func(r *Request) { r.Lifetime = -time.Hour }},
			{"a lifetime over ten years", "expires_in", func(r *Request) { r.Lifetime = MaxLifetime + 1 }},
		} {
			t.Run(row.name, func(t *testing.T) {
				r := testRequest()
				row.spoil(&r)
				_, _, err := s.Create(t.Context(), r)
				var invalid *Invalid
				if !errors.As(err, &invalid) || invalid.Param != row.param || strings.Contains(err.Error(), goodKey) {
					t.Fatalf("error is %v", err)
				}
			})
		}
		if n := rdb.DBSize(t.Context()).Val(); n != 0 {
			t.Fatalf("the store holds %d names", n)
		}
	})
}

func TestARevokedKeyIsRefusedAndStaysListed(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := testStore(t, rdb)
		plaintext, made := mustCreate(t, s, testRequest())
		revoked, err := s.Revoke(t.Context(), made.ID)
		if err != nil || revoked.State != Revoked {
			t.Fatalf("revoke gave %+v, %v", revoked, err)
		}
		if _, err := admit(t, s, plaintext); !errors.Is(err, ErrRevoked) {
			t.Fatalf("admission gave %v", err)
		}
		again, err := s.Revoke(t.Context(), made.ID)
		if err != nil || !again.Revoked.Equal(revoked.Revoked) {
			t.Fatalf("the second revocation gave %+v, %v", again, err)
		}
		for _, name := range []string{
			s.layout.Key(made.Owner, made.ID), s.layout.OwnerOf(made.ID), s.layout.Digest(s.peppers.Digest([]byte(plaintext))),
		} {
			if ttl := rdb.TTL(t.Context(), name).Val(); ttl < Retention-time.Hour || ttl > Retention {
				t.Errorf("%s is forgotten in %v, want %v", name, ttl, Retention)
			}
		}
	})
}

func TestAnExpiredKeyIsRefused(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := testStore(t, rdb)
		r := testRequest()
		r.Lifetime = time.Hour
		plaintext, made := mustCreate(t, s, r)
		if got := made.Expires.Sub(made.Created); got != time.Hour {
			t.Fatalf("the key lives %v", got)
		}
		for _, name := range []string{s.layout.Key(made.Owner, made.ID), s.layout.OwnerOf(made.ID)} {
			if ttl := rdb.TTL(t.Context(), name).Val(); ttl < Retention || ttl > Retention+time.Hour {
				t.Errorf("%s is forgotten in %v", name, ttl)
			}
		}
		if _, err := admit(t, s, plaintext); err != nil {
			t.Fatalf("before its expiry: %v", err)
		}
		makeExpired(t, s, made)
		if _, err := admit(t, s, plaintext); !errors.Is(err, ErrExpired) {
			t.Fatalf("after its expiry: %v", err)
		}
	})
}

func TestRotationGivesANewKeyAndLetsTheOldOneRunOut(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := testStore(t, rdb)
		r := testRequest()
		r.Lifetime = 30 * 24 * time.Hour
		oldPlaintext, old := mustCreate(t, s, r)
		plaintext, made, err := s.Rotate(t.Context(), old.ID, time.Hour, FromAPI)
		if err != nil {
			t.Fatal(err)
		}
		if made.Owner != old.Owner || made.Name != old.Name || made.Plan != old.Plan || made.ID == old.ID || made.Origin != FromAPI {
			t.Fatalf("new key %+v, old key %+v", made, old)
		}
		if got := made.Expires.Sub(made.Created); got != r.Lifetime {
			t.Fatalf("the new key lives %v", got)
		}
		running, err := admit(t, s, oldPlaintext)
		if err != nil || running.Expires.Sub(made.Created) != time.Hour {
			t.Fatalf("old key %+v, %v", running, err)
		}
		if _, err := admit(t, s, plaintext); err != nil {
			t.Fatal(err)
		}
		_, third, err := s.Rotate(t.Context(), old.ID, 24*time.Hour, FromAPI)
		if err != nil || third.Expires.Sub(third.Created) != r.Lifetime {
			t.Fatalf("rotating again gave %+v, %v", third, err)
		}
		if running, _ = admit(t, s, oldPlaintext); running.Expires.Sub(made.Created) != time.Hour {
			t.Fatal("a second rotation put the old key's expiry off")
		}
	})
}

func TestRotationWithoutOverlapStopsTheOldKeyAtOnce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := testStore(t, rdb)
		plaintext, old := mustCreate(t, s, testRequest())
		if _, _, err := s.Rotate(t.Context(), old.ID, 0, FromCLI); err != nil {
			t.Fatal(err)
		}
		if _, err := admit(t, s, plaintext); !errors.Is(err, ErrExpired) {
			t.Fatalf("the old key: %v", err)
		}
	})
}

func TestDeadAndUnknownKeysCannotBeRotated(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := testStore(t, rdb)
		_, revoked := mustCreate(t, s, testRequest())
		if _, err := s.Revoke(t.Context(), revoked.ID); err != nil {
			t.Fatal(err)
		}
		_, expired := mustCreate(t, s, testRequest())
		makeExpired(t, s, expired)
		for _, row := range []struct {
			id   string
			want error
		}{
			{revoked.ID, ErrRevoked},
			{expired.ID, ErrExpired},
			{"k_0123456789abcdef", ErrUnknown},
			{"../etc", ErrUnknown},
			{"", ErrUnknown},
		} {
			if _, _, err := s.Rotate(t.Context(), row.id, time.Hour, FromCLI); !errors.Is(err, row.want) {
				t.Errorf("rotating %q gave %v, want %v", row.id, err, row.want)
			}
		}
		if n := rdb.SCard(t.Context(), s.layout.KeyIDs(revoked.Owner)).Val(); n != 2 {
			t.Fatalf("refused rotations left %d keys", n)
		}
	})
}

// The scripts check again what Rotate read before: somebody may have revoked
// the key in between.
func TestTheRotationScriptItselfRefusesADeadKey(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := testStore(t, rdb)
		_, old := mustCreate(t, s, testRequest())
		if _, err := s.Revoke(t.Context(), old.ID); err != nil {
			t.Fatal(err)
		}
		d, err := s.draft(old.Owner)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.run(t.Context(), rotateScript, d.owner, d.id,
			append(s.names(d), s.layout.Key(old.Owner, old.ID)), s.args(d, FromCLI, 0)...)
		if !errors.Is(err, ErrRevoked) || rdb.Exists(t.Context(), s.layout.Key(d.owner, d.id)).Val() != 0 {
			t.Fatalf("script gave %v", err)
		}
	})
}

func TestARepeatedCommandChangesNothingAndATakenIDIsAnError(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, r := testStore(t, rdb), testRequest()
		d, err := s.draft(r.Owner)
		if err != nil {
			t.Fatal(err)
		}
		create := func(d draft) (Key, error) {
			return s.run(t.Context(), createScript, d.owner, d.id, s.names(d), s.args(d, r.Origin, r.Name, r.Plan, 0)...)
		}
		first, err := create(d)
		if err != nil {
			t.Fatal(err)
		}
		if second, err := create(d); err != nil || second != first {
			t.Fatalf("the repeated command gave %+v, %v", second, err)
		}
		d.digest[0] ^= 1
		if _, err := create(d); !errors.Is(err, ErrStore) {
			t.Fatalf("another key under the same id gave %v", err)
		}
	})
}

func TestACrashBeforeTheLastWriteLeavesNothingThatWorksOrIsListed(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := testStore(t, rdb)
		d, err := s.draft("ann")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.announce(t.Context(), d, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := admit(t, s, d.plaintext); !errors.Is(err, ErrStore) {
			t.Fatalf("admission gave %v", err)
		}
		for key, err := range s.Keys(t.Context(), "") {
			t.Fatalf("listed: %+v, %v", key, err)
		}
		if _, err := s.Revoke(t.Context(), d.id); !errors.Is(err, ErrUnknown) {
			t.Fatalf("revoke gave %v", err)
		}
	})
}

// A cluster refuses a script whose names lie in different slots.
func TestAKeysWholeLifeOnACluster(t *testing.T) {
	s := testStore(t, redistest.Cluster(t))
	if _, err := s.Mark(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := testRequest()
	r.Lifetime = time.Hour
	_, first := mustCreate(t, s, r)
	plaintext, second, err := s.Rotate(t.Context(), first.ID, time.Minute, FromCLI)
	if err != nil {
		t.Fatal(err)
	}
	uses := NewUses(s)
	uses.Saw(second.Owner, second.ID)
	if err := uses.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found, err := admit(t, s, plaintext); err != nil || found.Used.IsZero() {
		t.Fatalf("found %+v, %v", found, err)
	}
	if _, err := s.Revoke(t.Context(), second.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := admit(t, s, plaintext); !errors.Is(err, ErrRevoked) {
		t.Fatalf("after the revocation: %v", err)
	}
	if n := len(listed(t, s, "")); n != 2 {
		t.Fatalf("%d keys listed", n)
	}
}

func TestTheMarkerStaysUntilTheStoreIsLost(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := testStore(t, rdb)
		first, err := s.Mark(t.Context())
		if err != nil || len(first) != 32 {
			t.Fatalf("marker %q, %v", first, err)
		}
		if again, err := s.Mark(t.Context()); err != nil || again != first {
			t.Fatalf("marker changed: %v", err)
		}
		rdb.FlushAll(t.Context())
		if other, err := s.Mark(t.Context()); err != nil || other == first {
			t.Fatalf("a new store has the old marker: %v", err)
		}
	})
}

func TestAStoreThatIsGoneIsErrStoreAndNeverErrUnknown(t *testing.T) {
	server := redistest.Start(t)
	s := testStore(t, server.Client())
	_, made := mustCreate(t, s, testRequest())
	server.Kill()
	calls := map[string]func() error{
		"create": func() error { _, _, err := s.Create(t.Context(), testRequest()); return err },
		"rotate": func() error { _, _, err := s.Rotate(t.Context(), made.ID, 0, FromCLI); return err },
		"revoke": func() error { _, err := s.Revoke(t.Context(), made.ID); return err },
		"get":    func() error { _, err := s.Get(t.Context(), made.ID); return err },
		"mark":   func() error { _, err := s.Mark(t.Context()); return err },
		"list": func() error {
			for _, err := range s.Keys(t.Context(), "") {
				return err
			}
			return nil
		},
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, ErrStore) || errors.Is(err, ErrUnknown) {
			t.Errorf("%s gave %v", name, err)
		}
	}
	server.Restart()
	if _, err := s.Get(t.Context(), made.ID); err != nil {
		t.Fatalf("after the restart: %v", err)
	}
}
