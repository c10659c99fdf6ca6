package redistest

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// go-redis sleeps a second between dials and ends that goroutine by itself.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

func TestEachGivesEmptyStoresThatRunScripts(t *testing.T) {
	Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		if n := rdb.DBSize(t.Context()).Val(); n != 0 {
			t.Fatalf("store holds %d keys at the start", n)
		}
		got, err := rdb.Eval(t.Context(), "return redis.call('TIME')[1]", nil).Result()
		if err != nil || got == "" {
			t.Fatalf("script gave %v, %v", got, err)
		}
	})
}

func TestAClusterRefusesAScriptOverSlots(t *testing.T) {
	rdb := Cluster(t)
	if err := rdb.Eval(t.Context(), "return redis.call('SET', KEYS[1], 1)", []string{"{a}x", "{a}y"}).Err(); err != nil {
		t.Fatalf("in one slot: %v", err)
	}
	if err := rdb.Eval(t.Context(), "return 1", []string{"{a}x", "{b}y"}).Err(); err == nil {
		t.Fatal("over two slots: no error")
	}
}

func TestDataSurvivesAKillAndNotTheLossOfTheDisk(t *testing.T) {
	s := Start(t)
	rdb := s.Client()
	if err := rdb.Set(t.Context(), "a", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	s.Restart()
	if got := s.Client().Get(t.Context(), "a").Val(); got != "1" {
		t.Fatalf("after kill and restart the value is %q", got)
	}
	s.RestartEmpty()
	if err := s.Client().Get(t.Context(), "a").Err(); !errors.Is(err, redis.Nil) {
		t.Fatalf("after an empty restart: %v", err)
	}
}

func TestAPausedServerAnswersNothingUntilContinued(t *testing.T) {
	s := Start(t)
	rdb := s.Client()
	rdb.Ping(t.Context())
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err == nil {
		t.Fatal("a paused server answered")
	}
	s.Continue()
	if err := s.Client().Ping(t.Context()).Err(); err != nil {
		t.Fatalf("after continue: %v", err)
	}
}

func TestAStoppedServerRefusesConnections(t *testing.T) {
	s := Start(t)
	s.Stop()
	conn, err := net.Dial("tcp", s.Addr())
	if err == nil {
		_ = conn.Close()
		t.Fatal("a stopped server accepts connections")
	}
}
