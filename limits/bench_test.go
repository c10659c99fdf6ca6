package limits

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"mete/auth/redistest"
)

// cpu is the processor time that this process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// redisInfo reads one number of INFO.
func redisInfo(b *testing.B, rdb redis.UniversalClient, section, name string) float64 {
	b.Helper()
	for line := range strings.Lines(rdb.Info(b.Context(), section).Val()) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name); ok {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatalf("INFO has no %s", name)
	return 0
}

// BenchmarkReserve is one admission with two windows and slots, by so many
// callers at one time, each with an owner of its own. Reported per admission:
// the gateway's CPU (client-us), all of Redis's CPU with its network
// (redis-us), and the time in the script (script-us). With settle, the end of
// each request is part of it.
func BenchmarkReserve(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		for _, settle := range []bool{false, true} {
			b.Run(fmt.Sprintf("callers=%d/settle=%v", callers, settle), func(b *testing.B) {
				benchmarkReserve(b, callers, settle)
			})
		}
	}
}

func benchmarkReserve(b *testing.B, callers int, settle bool) {
	server := redistest.Start(b, "--appendonly", "no")
	rdb := server.Client()
	r := newRig(b, rdb, plan(requests(1e9, time.Minute), tokens(1e12, time.Minute), concurrent(1e9)))
	keys := make([][]byte, callers)
	for i := range keys {
		keys[i] = r.key(fmt.Sprintf("owner%d", i))
		r.mustTake(keys[i], 10).Settle(Usage{Prompt: 5})
	}
	r.settled()
	rdb.ConfigResetStat(b.Context())
	redisBefore := redisInfo(b, rdb, "cpu", "used_cpu_user:") + redisInfo(b, rdb, "cpu", "used_cpu_sys:")
	b.ReportAllocs()
	before := cpu(b)
	b.ResetTimer()
	var work sync.WaitGroup
	for i, key := range keys {
		n := b.N / callers
		if i < b.N%callers {
			n++
		}
		work.Go(func() { admitMany(b, r, key, n, settle) })
	}
	work.Wait()
	b.StopTimer()
	r.settled()
	n := float64(b.N)
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/n, "client-us/op")
	redisAfter := redisInfo(b, rdb, "cpu", "used_cpu_user:") + redisInfo(b, rdb, "cpu", "used_cpu_sys:")
	b.ReportMetric((redisAfter-redisBefore)*1e6/n, "redis-us/op")
	for line := range strings.Lines(rdb.Info(b.Context(), "commandstats").Val()) {
		if _, rest, ok := strings.Cut(line, "cmdstat_evalsha:"); ok {
			var calls, us int64
			if _, err := fmt.Sscanf(rest, "calls=%d,usec=%d", &calls, &us); err == nil {
				b.ReportMetric(float64(us)/n, "script-us/op")
			}
		}
	}
}

func admitMany(b *testing.B, r *rig, key []byte, n int, settle bool) {
	a := ask(key, 10)
	for i := range n {
		a.ID[0], a.ID[1], a.ID[2], a.ID[3] = byte(i), byte(i>>8), byte(i>>16), byte(i>>24)
		g, err := r.Reserve(context.Background(), a)
		if err != nil {
			b.Error(err)
			return
		}
		if settle {
			g.Settle(Usage{Prompt: 5, Completion: 3})
		}
	}
}

// BenchmarkPlainEvalsha is what the same client needs for the smallest script
// there is, alone and unbatched: the floor that one round trip sets.
func BenchmarkPlainEvalsha(b *testing.B) {
	rdb := redistest.Start(b, "--appendonly", "no").Client()
	sha := rdb.ScriptLoad(b.Context(), "return {1}").Val()
	b.ReportAllocs()
	before := cpu(b)
	for b.Loop() {
		if err := rdb.EvalSha(b.Context(), sha, []string{"k"}).Err(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "client-us/op")
}

// BenchmarkRefusedUnasked is a request of a caller who was told to wait.
func BenchmarkRefusedUnasked(b *testing.B) {
	r := newRig(b, redistest.Embedded(b), plan(requests(1, time.Hour)))
	key := r.key("ann")
	r.mustTake(key, 1)
	if _, err := r.take(key, 1); err == nil {
		b.Fatal("let in")
	}
	a := ask(key, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Reserve(context.Background(), a); err == nil {
			b.Fatal("let in")
		}
	}
}
