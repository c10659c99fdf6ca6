package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mete/bench/sim"
)

// departures records when the replica saw its clients leave.
type departures struct {
	mu      sync.Mutex
	arrived map[string]chan struct{} // by the request's user
	left    map[string]chan time.Time
}

func (d *departures) of(user string) (arrived chan struct{}, left chan time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.arrived[user] == nil {
		d.arrived[user], d.left[user] = make(chan struct{}), make(chan time.Time, 1)
	}
	return d.arrived[user], d.left[user]
}

// serve brings the exchange to the phase that the request's user names, then
// waits until its client is gone.
func (d *departures) serve(req *sim.Request, c net.Conn) error {
	_, rest, _ := strings.Cut(string(req.Body), `"user":"`)
	user, _, _ := strings.Cut(rest, `"`)
	arrived, left := d.of(user)
	phase, _, _ := strings.Cut(user, "-")
	if phase != "headers" {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	}
	if phase == "stream" {
		text := events("\n", textChunk)
		_, _ = fmt.Fprintf(c, "%x\r\n%s\r\n", len(text), text)
	}
	close(arrived)
	<-req.Gone()
	left <- time.Now()
	return io.EOF
}

// TestClientThatLeavesClosesTheUpstreamConnection lets clients leave in every
// phase and measures when the replica sees it.
func TestClientThatLeavesClosesTheUpstreamConnection(t *testing.T) {
	const clients = 300
	d := &departures{arrived: map[string]chan struct{}{}, left: map[string]chan time.Time{}}
	r := newRig(t, withScript(d.serve))
	base := resourcesNow()
	var delays []time.Duration
	for i := range clients {
		phase := []string{"headers", "first", "stream", "headers-whole"}[i%4]
		user := fmt.Sprintf("%s-%d", phase, i)
		delays = append(delays, r.leaveIn(d, phase, user))
	}
	r.awaitIdle()
	slices.Sort(delays)
	median, worst := delays[len(delays)/2], delays[len(delays)-1]
	t.Logf("%d clients left in 4 phases: the replica saw it after %v at the median, %v at worst", clients, median, worst)
	if median > 10*time.Millisecond {
		t.Errorf("median %v is over 10 ms", median)
	}
	if n := r.replicas[0].Stats().Running; n != 0 {
		t.Errorf("%d requests still run on the replica", n)
	}
	awaitResources(t, base)
}

// leaveIn opens a request, waits until it is in its phase, closes the client's
// connection and returns how long the replica took to see it.
func (r *rig) leaveIn(d *departures, phase, user string) time.Duration {
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	body := fmt.Sprintf(`{"model":"mete","stream":%v,"user":"%s","messages":[{"role":"user","content":"x"}]}`, phase != "headers-whole", user)
	_, _ = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		testKey, len(body), body)
	arrived, left := d.of(user)
	await(r.T, arrived)
	if phase == "stream" {
		if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
			r.Fatal(err)
		}
	}
	began := time.Now()
	_ = c.Close()
	select {
	case at := <-left:
		return at.Sub(began)
	case <-time.After(20 * time.Second):
		r.Fatalf("%s: the replica was not told", user)
		return 0
	}
}

func await(t *testing.T, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(20 * time.Second):
		t.Fatal("timed out")
	}
}

type resources struct{ goroutines, descriptors int }

func resourcesNow() resources {
	fds, _ := os.ReadDir("/proc/self/fd")
	return resources{runtime.NumGoroutine(), len(fds)}
}

// awaitResources waits until goroutines and descriptors are back at base.
func awaitResources(t *testing.T, base resources) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for {
		now := resourcesNow()
		// Idle workers of the server and connections to the store may remain:
		// some, whatever the number of clients was.
		if now.goroutines <= base.goroutines+20 && now.descriptors <= base.descriptors+20 {
			t.Logf("goroutines %d, at the start %d; descriptors %d, at the start %d", now.goroutines, base.goroutines, now.descriptors, base.descriptors)
			return
		}
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("goroutines %d, at the start %d; descriptors %d, at the start %d\n%s",
				now.goroutines, base.goroutines, now.descriptors, base.descriptors, buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
		time.Sleep(10 * time.Millisecond) // polls a count that has no event
	}
}

func TestClientThatLeavesBehindPipelinedBytesIsNoticed(t *testing.T) {
	d := &departures{arrived: map[string]chan struct{}{}, left: map[string]chan time.Time{}}
	r := newRig(t, withScript(d.serve))
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	body := `{"model":"mete","user":"headers-0","messages":[{"role":"user","content":"x"}]}`
	_, _ = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%sGET /v1/models HTT",
		testKey, len(body), body)
	arrived, left := d.of("headers-0")
	await(t, arrived)
	_ = c.Close()
	select {
	case <-left:
	case <-time.After(20 * time.Second):
		t.Fatal("the replica was not told")
	}
	r.awaitIdle()
}

// TestWatchOutlivesTheServersReadTimeout: the server's deadline for the header
// is still set while the handler runs.
func TestWatchOutlivesTheServersReadTimeout(t *testing.T) {
	client, server := socketPair(t)
	_ = server.SetReadDeadline(time.Now().Add(-time.Second))
	left := make(chan struct{})
	p := watched(t, server)
	if !p.watch(func() { close(left) }) {
		t.Fatal("the connection cannot be watched")
	}
	_ = client.Close()
	await(t, left)
	p.unwatch()
}

func TestWatchEndsWithoutReading(t *testing.T) {
	client, server := socketPair(t)
	p := watched(t, server)
	if !p.watch(func() { t.Error("the client has not left") }) {
		t.Fatal("the connection cannot be watched")
	}
	if _, err := io.WriteString(client, "next request"); err != nil {
		t.Fatal(err)
	}
	p.unwatch()
	got := make([]byte, len("next request"))
	if _, err := io.ReadFull(server, got); err != nil || string(got) != "next request" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestAPeerThatHasLeftIsKnownToTheNextWatch: the kernel tells of it once.
func TestAPeerThatHasLeftIsKnownToTheNextWatch(t *testing.T) {
	client, server := socketPair(t)
	p := watched(t, server)
	first := make(chan struct{})
	p.watch(func() { close(first) })
	_ = client.Close()
	await(t, first)
	p.unwatch()
	again := make(chan struct{})
	p.watch(func() { close(again) })
	await(t, again)
}

func TestAHalfClosedPeerBehindUnreadBytesHasLeft(t *testing.T) {
	client, server := socketPair(t)
	p := watched(t, server)
	left := make(chan struct{})
	p.watch(func() { close(left) })
	_, _ = io.WriteString(client, "nobody reads this")
	_ = client.(*net.TCPConn).CloseWrite()
	await(t, left)
}

// watched is the peer of c, watched until the test ends.
func watched(t *testing.T, c net.Conn) *peer {
	t.Helper()
	h, err := newHangups()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.close)
	p := &peer{}
	h.add(c, p)
	return p
}

func socketPair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	if client, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(); _ = server.Close() })
	return client, server
}

// TestLeavingRightAfterTheEndIsNoAbort: Python and Node may close as soon as
// they have read [DONE].
func TestLeavingRightAfterTheEndIsNoAbort(t *testing.T) {
	r := newRig(t, withScript(func(req *sim.Request, c net.Conn) error {
		stream := events("\n", textChunk, doneChunk)
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(stream), stream)
		<-req.Gone() // the terminating chunk is late
		return io.EOF
	}))
	ctx, cancel := context.WithCancel(context.Background())
	response, err := r.client.Do(r.request("/v1/chat/completions", streamBody).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() && lines.Text() != doneChunk {
	}
	cancel()
	r.awaitIdle()
	if line := r.log.String(); !strings.Contains(line, `"outcome":"success"`) || strings.Contains(line, `"fault"`) {
		t.Error(line)
	}
	r.wantCounted("attempts_total", map[string]float64{"success general": 1})
	r.wantCounted("answers_cut_total", map[string]float64{})
	r.wantCounted("client_left_total", map[string]float64{})
}
