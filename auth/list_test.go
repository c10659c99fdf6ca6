package auth

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"mete/auth/redistest"
)

func listed(t *testing.T, s *Store, owner string) map[string]int {
	t.Helper()
	ids := map[string]int{}
	for key, err := range s.Keys(t.Context(), owner) {
		if err != nil {
			t.Fatal(err)
		}
		ids[key.ID]++
	}
	return ids
}

func TestKeysYieldsEveryKeyOnce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := testStore(t, rdb)
		made := map[string]string{}
		add := func(owner string) {
			r := testRequest()
			r.Owner = owner
			_, key := mustCreate(t, s, r)
			made[key.ID] = owner
		}
		for i := range pageSize + 50 { // more owners than fit a page
			add(fmt.Sprintf("owner-%d", i))
		}
		for range pageSize + 100 { // more keys than fit a page
			add("ann")
		}
		all := listed(t, s, "")
		if len(all) != len(made) {
			t.Fatalf("%d keys listed of %d", len(all), len(made))
		}
		for id, n := range all {
			if _, ok := made[id]; !ok || n != 1 {
				t.Fatalf("key %s came %d times", id, n)
			}
		}
		if n := len(listed(t, s, "ann")); n != pageSize+100 {
			t.Fatalf("%d keys of ann listed", n)
		}
		if n := len(listed(t, s, "nobody")); n != 0 {
			t.Fatalf("%d keys of nobody listed", n)
		}
	})
}

func TestKeysStopsWhenTheCallerDoes(t *testing.T) {
	s := testStore(t, redistest.Embedded(t))
	mustCreate(t, s, testRequest())
	mustCreate(t, s, testRequest())
	n := 0
	for _, err := range s.Keys(t.Context(), "") {
		if n++; err != nil {
			t.Fatal(err)
		}
		break
	}
	if n != 1 {
		t.Fatalf("%d keys came", n)
	}
}

// A set that grows under a scan may show a name twice. That cannot be made to
// happen at will, so the second showing is asked for.
func TestAnIDThatAScanShowsTwiceIsTakenOnce(t *testing.T) {
	s := testStore(t, redistest.Embedded(t))
	_, key := mustCreate(t, s, testRequest())
	twice := []place{{owner: key.Owner}, {owner: key.Owner}}
	refs, rest, err := s.scan(t.Context(), twice, map[string]struct{}{})
	if err != nil || len(refs) != 1 || len(rest) != 0 {
		t.Fatalf("refs %v, rest %v, %v", refs, rest, err)
	}
}

func TestAForgottenKeyLeavesTheList(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := testStore(t, rdb)
		_, gone := mustCreate(t, s, testRequest())
		_, kept := mustCreate(t, s, testRequest())
		rdb.Del(t.Context(), s.layout.Key(gone.Owner, gone.ID)) // as its expiry does
		if ids := listed(t, s, ""); len(ids) != 1 || ids[kept.ID] != 1 {
			t.Fatalf("listed %v", ids)
		}
		if ids := rdb.SMembers(t.Context(), s.layout.KeyIDs(kept.Owner)).Val(); len(ids) != 1 {
			t.Fatalf("the owner's set still holds %v", ids)
		}
	})
}

func TestUsesAreWrittenOncePerFlushAndNeverRecreateAKey(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := testStore(t, rdb)
		_, used := mustCreate(t, s, testRequest())
		_, idle := mustCreate(t, s, testRequest())
		uses := NewUses(s)
		for range 1000 {
			uses.Saw(used.Owner, used.ID)
		}
		uses.Saw("ann", "k_0123456789abcdef")
		if err := uses.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		read, err := s.Get(t.Context(), used.ID)
		if err != nil || read.Used.Before(used.Created) || time.Since(read.Used) > time.Minute {
			t.Fatalf("last used %v, %v", read.Used, err)
		}
		if read, _ = s.Get(t.Context(), idle.ID); !read.Used.IsZero() {
			t.Fatalf("an idle key was used at %v", read.Used)
		}
		if n := rdb.Exists(t.Context(), s.layout.Key("ann", "k_0123456789abcdef")).Val(); n != 0 {
			t.Fatal("a forgotten key came back")
		}
		if len(uses.seen) != 0 {
			t.Fatalf("%d uses left after the flush", len(uses.seen))
		}
	})
}

func TestUsesAreWrittenOnceMoreAtTheEnd(t *testing.T) {
	s := testStore(t, redistest.Embedded(t))
	_, key := mustCreate(t, s, testRequest())
	uses := NewUses(s)
	uses.Saw(key.Owner, key.ID)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	uses.Run(ctx, func(err error) { t.Error(err) })
	if read, err := s.Get(t.Context(), key.ID); err != nil || read.Used.IsZero() {
		t.Fatalf("last used %v, %v", read.Used, err)
	}
}

func TestUsesThatCannotBeWrittenAreReported(t *testing.T) {
	server := redistest.Start(t)
	uses := NewUses(testStore(t, server.Client()))
	uses.Saw("ann", "k_0123456789abcdef")
	server.Kill()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var reported error
	uses.Run(ctx, func(err error) { reported = err })
	if !errors.Is(reported, ErrStore) {
		t.Fatalf("reported %v", reported)
	}
}

func TestSeeingAKeyAgainAllocatesNothing(t *testing.T) {
	uses := NewUses(nil)
	owner, id := "ann", "k_0123456789abcdef"
	if n := testing.AllocsPerRun(1000, func() { uses.Saw(owner, id) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
