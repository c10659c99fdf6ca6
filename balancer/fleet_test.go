package balancer

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// serveFleet is set in the environment of the process that plays the replicas,
// so that their work is not counted with the checks'.
const serveFleet = "METE_BALANCER_SERVE_FLEET"

// fleet serves /health and a page of 100 KB under /metrics on every loopback
// address, and writes its port to standard output.
func fleet() {
	page := bigPage()
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			_, _ = w.Write(page)
		}
	}))
}

// BenchmarkChecks measures what it costs to check 1,000 replicas once a second:
// the share of a core that this process uses. Scraped is /health and /metrics;
// where answers tell the load, /health alone is left.
func BenchmarkChecks(b *testing.B) {
	b.Run("scraped", func(b *testing.B) { benchmarkChecks(b, func(*Pool) {}) })
	b.Run("told_by_answers", func(b *testing.B) {
		header := []byte("TEXT named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=3.0")
		benchmarkChecks(b, func(p *Pool) {
			for _, r := range p.Replicas() {
				r.ObserveORCA(header)
			}
		})
	})
}

// benchmarkChecks calls answers four times a second.
func benchmarkChecks(b *testing.B, answers func(*Pool)) {
	const replicas = 1000
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveFleet+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var port int
	if _, err := fmt.Fscan(out, &port); err != nil {
		b.Fatal(err)
	}
	list := make([]string, replicas)
	for i := range list {
		list[i] = fmt.Sprintf("http://127.0.%d.%d:%d", 1+i/250, 1+i%250, port)
	}
	p, err := NewPool("general", Static(list), Options{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { p.Run(ctx); close(ended) }()
	defer func() { stop(); <-ended }()
	second := func() {
		for range 4 {
			answers(p)
			time.Sleep(time.Second / 4)
		}
	}
	for range 3 { // until all connections are made
		second()
	}
	before, began := cpuTime(), time.Now()
	b.ResetTimer()
	for range b.N {
		second()
	}
	b.ReportMetric(100*float64(cpuTime()-before)/float64(time.Since(began)), "%core")
	b.ReportMetric(float64(fresh(p)), "fresh")
}

// fresh counts the replicas whose load is known and believed.
func fresh(p *Pool) (n int) {
	for _, r := range p.Snapshot().Replicas {
		if r.Load.Used && r.State == StateReady {
			n++
		}
	}
	return n
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bigPage is a page of the size and the kind that vLLM has.
func bigPage() []byte {
	var b strings.Builder
	for i := 0; b.Len() < 100<<10; i++ {
		fmt.Fprintf(&b, "vllm:e2e_request_latency_seconds_bucket{engine=\"0\",le=\"%d.0\",model_name=\"m\"} %d.0\n", i, i*7)
	}
	return []byte(b.String() + oneEngine)
}
