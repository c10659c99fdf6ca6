package sim

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkEvents measures streamed events per second with everything on one
// core, the reading client included. One operation is one event: one write.
func BenchmarkEvents(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r, err := Start(Config{MaxModelLen: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	body := fmt.Sprintf(`{"model":"sim","stream":true,"ignore_eos":true,"max_tokens":%d,"messages":[{"role":"user","content":"hi"}]}`, 20000)
	request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s", len(body), body)
	c, err := net.Dial("tcp", r.Addr())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	buf := make([]byte, 64<<10)
	b.ResetTimer()
	sent := 0
	for sent < b.N {
		if _, err := c.Write(request); err != nil {
			b.Fatal(err)
		}
		if err := readPast(c, buf, []byte("\r\n0\r\n\r\n")); err != nil {
			b.Fatal(err)
		}
		sent += 20000
	}
	b.StopTimer()
	events := float64(r.Stats().Events)
	b.ReportMetric(events/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/events, "ns/event")
}

// BenchmarkTimedStreams measures 500 streams of 200 tokens that the scheduling
// model paces, on one core with all their clients. A token each millisecond is
// more than a core can send, so events/s is what it can.
func BenchmarkTimedStreams(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const streams = 500
	p := FixedProfile(ms, ms, 0)
	p.MaxSeqs = streams
	r, err := Start(Config{Profile: &p, MaxModelLen: 400000})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	body := `{"stream":true,"ignore_eos":true,"max_tokens":200,"messages":[{"role":"user","content":"hi"}]}`
	request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s", len(body), body)
	var conns []net.Conn
	for range streams {
		c, err := net.Dial("tcp", r.Addr())
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		conns = append(conns, c)
	}
	b.ResetTimer()
	before := cpuTime()
	for range b.N {
		var all sync.WaitGroup
		for _, c := range conns {
			all.Go(func() {
				if _, err := c.Write(request); err != nil {
					b.Error(err)
				}
				if err := readPast(c, make([]byte, 8<<10), []byte("\r\n0\r\n\r\n")); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
	}
	events := float64(r.Stats().Events)
	b.ReportMetric(events/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64((cpuTime()-before).Microseconds())/events, "cpu-us/event")
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRequests measures short requests that are not streamed, one after
// another on one connection and one core, the client included.
func BenchmarkRequests(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r, err := Start(Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	body := `{"model":"sim","max_tokens":4,"messages":[{"role":"user","content":"hi"}]}`
	request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s", len(body), body)
	c, err := net.Dial("tcp", r.Addr())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	br := bufio.NewReader(c)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(request); err != nil {
			b.Fatal(err)
		}
		if err := skipResponse(br); err != nil {
			b.Fatal(err)
		}
	}
}

func skipResponse(br *bufio.Reader) error {
	length := 0
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			_, err := br.Discard(length)
			return err
		}
		if bytes.HasPrefix(line, []byte("content-length: ")) {
			_, _ = fmt.Sscan(string(line[16:]), &length)
		}
	}
}

func readPast(r io.Reader, buf, mark []byte) error {
	kept := 0
	for {
		n, err := r.Read(buf[kept:])
		if bytes.HasSuffix(buf[:kept+n], mark) {
			return nil
		}
		if err != nil {
			return err
		}
		kept = copy(buf, buf[max(0, kept+n-len(mark)):kept+n])
	}
}

// BenchmarkLeaving measures the time from a client's close, mid-stream, to the
// moment at which the replica knows.
func BenchmarkLeaving(b *testing.B) {
	p := FixedProfile(ms, 5*ms, 0)
	left := make(chan time.Time, 1)
	r, err := Start(Config{Profile: &p, MaxModelLen: 400000, Observe: func(req *Request) {
		gone := req.Gone()
		go func() { <-gone; left <- time.Now() }()
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	var all []float64
	for range b.N {
		c := dial(b, r)
		c.send(b, rawPost(chatPath, streamed))
		c.until(b, "data: ")
		began := time.Now()
		_ = c.Close()
		all = append(all, float64((<-left).Sub(began).Microseconds()))
	}
	slices.Sort(all)
	b.ReportMetric(all[len(all)/2], "p50-us")
	b.ReportMetric(all[len(all)-1], "max-us")
}

// BenchmarkEngine measures the scheduling model alone: one operation is one
// engine step with 64 sequences running.
func BenchmarkEngine(b *testing.B) {
	p, err := NamedProfile("llama-3.1-8b-h100")
	if err != nil {
		b.Fatal(err)
	}
	e := NewEngine(p)
	var events []Event
	b.ReportAllocs()
	for b.Loop() {
		at, _ := e.Next()
		for l := e.Load(); l.Running+l.Waiting < 64; l = e.Load() {
			if _, err := e.Submit(at, Job{Prompt: 500, Output: 200}); err != nil {
				b.Fatal(err)
			}
		}
		at, _ = e.Next()
		events = e.Advance(at, events[:0])
	}
}

// BenchmarkTokens measures what a long prompt costs.
func BenchmarkTokens(b *testing.B) {
	text := string(bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog, 42 times. "), 20000))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		CountTokens(text)
	}
}
