package auth

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"mete/auth/redistest"
)

func TestATicketGivesOneKey(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := testStore(t, rdb)
		if err := s.Promise(t.Context(), "ann", "t1", time.Minute); err != nil {
			t.Fatal(err)
		}
		request := Request{Name: "laptop", Owner: "ann", Plan: "free", Origin: FromDevice, Lifetime: time.Hour}
		if _, _, err := s.Redeem(t.Context(), "t2", request); !errors.Is(err, ErrTicketUsed) {
			t.Fatalf("a ticket that was never written: %v", err)
		}
		var made, used atomic.Int64
		var wait sync.WaitGroup
		for range 20 {
			wait.Go(func() {
				plaintext, key, err := s.Redeem(t.Context(), "t1", request)
				switch {
				case err == nil && strings.HasSuffix(plaintext, key.Last4) && key.Origin == FromDevice:
					made.Add(1)
				case errors.Is(err, ErrTicketUsed):
					used.Add(1)
				}
			})
		}
		wait.Wait()
		if made.Load() != 1 || used.Load() != 19 {
			t.Fatalf("%d keys made, %d refused", made.Load(), used.Load())
		}
		// What was announced for the others is gone again.
		if n := len(rdb.Keys(t.Context(), "mete:digest:*").Val()); n != 1 {
			t.Fatalf("%d digests are left", n)
		}
	})
}

func TestATicketThatWasTornUpGivesNoKey(t *testing.T) {
	s := testStore(t, redistest.Embedded(t))
	if err := s.Promise(t.Context(), "ann", "t1", time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := s.TearUp(t.Context(), "ann", "t1"); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.Redeem(t.Context(), "t1", Request{Name: "n", Owner: "ann", Plan: "free"})
	if !errors.Is(err, ErrTicketUsed) {
		t.Fatal(err)
	}
}

func TestTicketsWorkOnACluster(t *testing.T) {
	s := testStore(t, redistest.Cluster(t))
	if err := s.Promise(t.Context(), "ann", "t1", time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Redeem(t.Context(), "t1", Request{Name: "n", Owner: "ann", Plan: "free"}); err != nil {
		t.Fatal(err)
	}
}

func TestRenameAndSetPlan(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := testStore(t, rdb)
		_, key := mustCreate(t, s, testRequest())
		if got, err := s.Rename(t.Context(), key.ID, "desk"); err != nil || got.Name != "desk" || got.Plan != "free" {
			t.Fatalf("%+v, %v", got, err)
		}
		if got, err := s.SetPlan(t.Context(), key.ID, "gold"); err != nil || got.Plan != "gold" || got.Name != "desk" {
			t.Fatalf("%+v, %v", got, err)
		}
		var invalid *Invalid
		for _, name := range []string{"", "a\nb", "sk-mete-0000"} {
			if _, err := s.Rename(t.Context(), key.ID, name); !errors.As(err, &invalid) {
				t.Errorf("name %q: %v", name, err)
			}
		}
		if _, err := s.Rename(t.Context(), "k_0000000000000000", "x"); !errors.Is(err, ErrUnknown) {
			t.Error(err)
		}
		if _, err := s.Revoke(t.Context(), key.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Rename(t.Context(), key.ID, "x"); !errors.Is(err, ErrRevoked) {
			t.Error(err)
		}
	})
}

func TestSealedRecordsCannotBeForged(t *testing.T) {
	old, err := NewPeppers(Pepper{Version: 1, Secret: []byte("the first pepper")})
	if err != nil {
		t.Fatal(err)
	}
	both, err := NewPeppers(Pepper{Version: 1, Secret: []byte("the first pepper")}, Pepper{Version: 2, Secret: []byte("the other pepper")})
	if err != nil {
		t.Fatal(err)
	}
	s := old.Sealer("device")
	sealed := s.Seal("name", []byte(`{"a":"b.c"}`))
	for what, opener := range map[string]*Sealer{"the same": s, "one with a newer pepper too": both.Sealer("device")} {
		if content, ok := opener.Open("name", sealed); !ok || string(content) != `{"a":"b.c"}` {
			t.Errorf("%s: %q, %v", what, content, ok)
		}
	}
	if _, ok := s.Open("name", both.Sealer("device").Seal("name", nil)); ok {
		t.Error("a seal under a pepper that is not known was taken")
	}
	forged := map[string][2]string{
		"another name":    {"other", string(sealed)},
		"another content": {"name", string(sealed) + " "},
		"no seal":         {"name", `{"a":"b.c"}`},
		"nothing":         {"name", ""},
		"another version": {"name", "v2" + string(sealed[2:])},
	}
	for what, f := range forged {
		if _, ok := s.Open(f[0], []byte(f[1])); ok {
			t.Errorf("%s was taken", what)
		}
	}
	if _, ok := old.Sealer("session").Open("name", sealed); ok {
		t.Error("another purpose was taken")
	}
	if token := s.Token("form"); !both.Sealer("device").Genuine("form", token) || s.Genuine("other", token) || s.Genuine("form", "") {
		t.Error("tokens are mixed up")
	}
}

func FuzzOpenSealed(f *testing.F) {
	p, _ := NewPeppers(Pepper{Version: 1, Secret: []byte("the first pepper")})
	s := p.Sealer("fuzz")
	f.Add(s.Seal("name", []byte("x")))
	f.Add([]byte("v1.."))
	f.Fuzz(func(t *testing.T, sealed []byte) {
		if content, ok := s.Open("name", sealed); ok && string(s.Seal("name", content)) != string(sealed) {
			t.Fatalf("%q was taken", sealed)
		}
	})
}

func TestTheKeyAPITellsOfChanges(t *testing.T) {
	s := testStore(t, redistest.Embedded(t))
	var told []string
	api := &API{
		Store: s, Token: testToken, Log: zerolog.Nop(), PlanExists: func(string) bool { return true },
		Changed: func(_ context.Context, what string, key Key, remote string) {
			if key.Owner == "ann" && remote != "" {
				told = append(told, what)
			}
		},
	}
	server := httptest.NewServer(api.Handler())
	t.Cleanup(server.Close)
	var made Issued
	if err := json.Unmarshal([]byte(call(t, server, "POST", "/admin/keys", `{"name":"ci","owner":"ann","plan":"free"}`).body), &made); err != nil {
		t.Fatal(err)
	}
	call(t, server, "POST", "/admin/keys/"+made.ID+"/rotate", "")
	call(t, server, "DELETE", "/admin/keys/"+made.ID, "")
	if got := strings.Join(told, ", "); got != "key created, key rotated, key revoked" {
		t.Fatalf("told of %s", got)
	}
}
