package auth

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"mete/auth/redistest"
)

var (
	million       = flag.Bool("million", false, "run TestMillionKeys, which takes minutes and a gigabyte")
	millionOwners = flag.Int("million-owners", 100_000, "owners that share TestMillionKeys's keys")
)

// TestMillionKeys measures what a key costs in Redis, and whether looking one
// up costs more among a million than among a thousand:
//
//	go test ./auth -run TestMillionKeys -million -v
func TestMillionKeys(t *testing.T) {
	if !*million {
		t.Skip("runs with -million")
	}
	s := testStore(t, redistest.Start(t, "--appendonly", "no").Client())
	empty := usedMemory(t, s)
	var keys []string
	for _, total := range []int{1_000, 10_000, 100_000, 1_000_000} {
		start, before := time.Now(), len(keys)
		for len(keys) < total {
			keys = append(keys, createMany(t, s, len(keys), 1000)...)
		}
		made := time.Since(start)
		perKey := (usedMemory(t, s) - empty) / int64(total)
		read, get, hmget := lookUp(t, s, keys)
		t.Logf("%8d keys: %4d bytes of Redis each; made at %6.0f/s; a look-up takes %v, of which Redis %.2f+%.2f us",
			total, perKey, float64(total-before)/made.Seconds(), read, get, hmget)
	}
	start, n := time.Now(), 0
	for _, err := range s.Keys(t.Context(), "") {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("listing %d keys of %d owners took %v", n, *millionOwners, time.Since(start).Round(time.Millisecond))
	if n != len(keys) {
		t.Fatalf("%d keys listed of %d", n, len(keys))
	}
}

// createMany writes what Create writes, in two round trips for all.
func createMany(t *testing.T, s *Store, from, n int) []string {
	t.Helper()
	ctx, plaintexts := t.Context(), make([]string, n)
	if err := createScript.Load(ctx, s.rdb).Err(); err != nil {
		t.Fatal(err)
	}
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		piped := &Store{layout: s.layout, format: s.format, peppers: s.peppers}
		for i := range plaintexts {
			d, err := piped.draft(fmt.Sprintf("owner-%06d@example.com", (from+i)%*millionOwners))
			if err != nil {
				return err
			}
			plaintexts[i] = d.plaintext
			p.Set(ctx, s.layout.OwnerOf(d.id), d.owner, 0)
			p.SAdd(ctx, s.layout.Owners(), d.owner)
			p.Set(ctx, s.layout.Digest(d.digest), JoinDigestValue(d.id, d.owner), 0)
			createScript.EvalSha(ctx, p, s.names(d), s.args(d, FromCLI, "production backend", "standard", 0)...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return plaintexts
}

// lookUp reads random keys as the request path does at first sight, and
// returns the mean of a whole look-up and Redis's own share, in microseconds.
func lookUp(t *testing.T, s *Store, keys []string) (whole time.Duration, get, hmget float64) {
	t.Helper()
	const rounds = 20_000
	s.rdb.ConfigResetStat(t.Context())
	start := time.Now()
	for range rounds {
		readKey(t.Context(), t, s, keys[rand.IntN(len(keys))])
	}
	whole = time.Since(start) / rounds
	stats := s.rdb.Info(t.Context(), "commandstats").Val()
	return whole, usecPerCall(t, stats, "get"), usecPerCall(t, stats, "hmget")
}

func readKey(ctx context.Context, t *testing.T, s *Store, plaintext string) {
	t.Helper()
	value, err := s.rdb.Get(ctx, s.layout.Digest(s.peppers.Digest([]byte(plaintext)))).Result()
	if err != nil {
		t.Fatal(err)
	}
	id, owner, _ := SplitDigestValue(value)
	fields, err := s.rdb.HMGet(ctx, s.layout.Key(owner, id), FieldName, FieldPlan, FieldExpires, FieldRevoked).Result()
	if err != nil || fields[0] == nil {
		t.Fatalf("record %v, %v", fields, err)
	}
}

func usecPerCall(t *testing.T, stats, command string) float64 {
	t.Helper()
	match := regexp.MustCompile(`cmdstat_` + command + `:.*usec_per_call=([0-9.]+)`).FindStringSubmatch(stats)
	if match == nil {
		t.Fatalf("no statistics of %s", command)
	}
	usec, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return usec
}

func usedMemory(t *testing.T, s *Store) int64 {
	t.Helper()
	match := regexp.MustCompile(`used_memory:(\d+)`).FindStringSubmatch(s.rdb.Info(t.Context(), "memory").Val())
	if match == nil {
		t.Fatal("no memory figure")
	}
	bytes, err := strconv.ParseInt(match[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}
