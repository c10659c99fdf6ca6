package proxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"mete/auth/redistest"
	"mete/config"
	"mete/proxy/trace"
)

// maxAllocs is what one short request may allocate in the gateway, limiter
// and Redis client included: objects.
const maxAllocs = 24

// shortAnswer is what the scripted replica says.
const shortAnswer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 83\r\n\r\n" +
	`{"choices":[{}],"usage":{"prompt_tokens":1,"total_tokens":2,"completion_tokens":1}}`

// TestAllocsPerShortRequest measures the whole process with a client and a
// replica that allocate nothing of their own.
func TestAllocsPerShortRequest(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates by itself")
	}
	store := redistest.Start(t) // the embedded one would allocate in this process
	r := newRig(t, withUpstream(startQuietReplica(t)), withConfig(func(cfg *config.Config) {
		cfg.Redis.URL = config.Secret("redis://" + store.Addr())
		cfg.Plans["all"] = config.Plan{DefaultTokens: 1024, Limits: []config.Limit{
			{Requests: 1 << 30, Per: time.Minute}, {Tokens: 1 << 40, Per: time.Minute}, {Concurrent: 100},
		}}
	}))
	perRequest := r.allocsPerRequest(chatBody)
	t.Logf("%.1f allocations a short request, 0 of them proportional to its body", perRequest)
	if perRequest > maxAllocs {
		t.Errorf("%.1f allocations, at most %d are allowed", perRequest, maxAllocs)
	}
	big := r.allocsPerRequest(fmt.Sprintf(`{"model":"mete","messages":[{"role":"user","content":"%s"}]}`, bytes.Repeat([]byte("x"), 1<<19)))
	if big > perRequest+20 {
		t.Errorf("a body of 512 KiB costs %.1f allocations, a short one %.1f", big, perRequest)
	}
}

// TestUntracedRequestAllocatesNoMore: with tracing on, a request that is not
// sampled costs no object more than with tracing off.
func TestUntracedRequestAllocatesNoMore(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates by itself")
	}
	store := redistest.Start(t)
	measure := func(change rigOption) float64 {
		return newRig(t, withUpstream(startQuietReplica(t)), change, withConfig(func(cfg *config.Config) {
			cfg.Redis.URL = config.Secret("redis://" + store.Addr())
		})).allocsPerRequest(chatBody)
	}
	off := measure(func(*config.Config, *rig) {})
	on := measure(func(_ *config.Config, r *rig) {
		tracer, err := trace.New(t.Context(), trace.Options{URL: "http://127.0.0.1:9/v1/traces"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tracer.Close(context.Background()) })
		r.tracer = tracer
	})
	t.Logf("%.1f allocations without tracing, %.1f with it", off, on)
	if on > off+0.5 {
		t.Errorf("%.1f allocations with tracing on, %.1f without", on, off)
	}
}

// allocsPerRequest sends the same request again and again on one connection.
func (r *rig) allocsPerRequest(body string) float64 {
	r.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		testKey, len(body), body)
	buf := make([]byte, 8<<10)
	once := func() {
		if _, err := c.Write(request); err != nil {
			r.Fatal(err)
		}
		for n := 0; !bytes.HasSuffix(buf[:n], []byte("}}")); {
			m, err := c.Read(buf[n:])
			if err != nil {
				r.Fatal(err)
			}
			n += m
		}
	}
	for range 200 {
		once()
	}
	var before, after runtime.MemStats
	const runs = 500
	runtime.ReadMemStats(&before)
	for range runs {
		once()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / runs
}

// startQuietReplica answers each request with the same bytes, without
// allocating anything.
func startQuietReplica(t *testing.T) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { serveQuietly(c) })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); conns.Wait() })
	return "http://" + ln.Addr().String()
}

// serveQuietly reads requests with a length and answers each.
func serveQuietly(c net.Conn) {
	defer func() { _ = c.Close() }()
	br := bufio.NewReaderSize(c, 64<<10)
	answer := []byte(shortAnswer)
	for {
		length := 0
		for {
			line, err := br.ReadSlice('\n')
			if err != nil {
				return
			}
			if rest, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
				for _, d := range bytes.TrimSpace(rest) {
					length = 10*length + int(d-'0')
				}
			}
			if len(line) == 2 {
				break
			}
		}
		if _, err := br.Discard(length); err != nil && err != io.EOF {
			return
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}
