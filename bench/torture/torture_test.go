package torture

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience bounds one connection, on a busy machine.
const patience = 30 * time.Second

// pause is how long a cut part is left alone, so that it is mostly read alone.
// No verdict depends on whether it was.
const pause = time.Millisecond

// TestNothingAmbiguousGoesIn sends every row whole, and byte by byte, and cut
// in two; the long form cuts each at every byte.
func TestNothingAmbiguousGoesIn(t *testing.T) {
	u := startUpstream(t)
	address := startGateway(t, u)
	rows := everyRow()
	var runs []run
	for i, r := range rows {
		runs = append(runs, run{r, 0})
		if *long || len(r.wire) < 1000 {
			runs = append(runs, run{r, everywhere})
		}
		if last := strings.LastIndex(r.wire, "\r\n0\r\n"); last >= 0 {
			runs = append(runs, run{r, last + len("\r\n0\r\n")}) // what fasthttp takes for an end if no more comes
		}
		step := max(97, len(r.wire)/4)
		if *long {
			step = max(1, len(r.wire)/2000) // every byte, but for bytes that are all alike
		}
		for cut := 1 + i%step; cut < len(r.wire); cut += step {
			runs = append(runs, run{r, cut})
		}
	}
	var wrong, accepted atomic.Int64
	each(runs, func(r run) {
		got, n := r.send(address)
		accepted.Add(int64(n))
		if got != r.want {
			if wrong.Add(1) <= 40 {
				t.Errorf("%s, cut at %d: got %s, want %s", r.name, r.cut, got, r.want)
			}
		}
	})
	if u.posts.Load() != accepted.Load() || u.wrong.Load() > 0 {
		t.Errorf("%d answers of the upstream's, which saw %d requests, and %d that nobody made", accepted.Load(), u.posts.Load(), u.wrong.Load())
	}
	t.Logf("%d cases, %d connections: %d wrong verdicts, %d requests accepted, %d reached the upstream", len(rows), len(runs), wrong.Load(), accepted.Load(), u.posts.Load())
}

func TestRowsHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range everyRow() {
		if seen[r.name] {
			t.Errorf("%q twice", r.name)
		}
		seen[r.name] = true
	}
	if len(seen) < 250 {
		t.Errorf("%d cases only", len(seen))
	}
}

// run is one row on one connection.
type run struct {
	row
	cut int // where its bytes are cut in two; 0 for nowhere
}

// everywhere cuts behind every byte, without a pause.
const everywhere = -1

func (r run) parts() []string {
	switch wire := r.wire + next; {
	case r.cut == everywhere:
		return strings.Split(wire, "")
	case r.cut > 0:
		return []string{wire[:r.cut], wire[r.cut:]}
	default:
		return []string{wire}
	}
}

// send returns the statuses of all answers until the connection ended, and how
// many of them are a replica's.
func (r run) send(address string) (statuses string, relayed int) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err.Error(), 0
	}
	defer func() { _ = c.Close() }()
	_ = c.(*net.TCPConn).SetLinger(0) // leaves no port behind
	_ = c.SetDeadline(time.Now().Add(patience))
	for i, part := range r.parts() {
		if i > 0 && r.cut > 0 {
			time.Sleep(pause)
		}
		if _, err := io.WriteString(c, part); err != nil {
			break // refused already
		}
	}
	method, _, _ := strings.Cut(strings.TrimLeft(r.wire, "\r\n"), " ")
	return answers(bufio.NewReader(c), method)
}

// answers reads to the connection's end. The first answer is to a request of
// this method.
func answers(br *bufio.Reader, method string) (string, int) {
	var all []string
	relayed := 0
	for {
		if _, err := br.Peek(1); err != nil {
			if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
				all = append(all, "hangs")
			}
			return strings.Join(all, " "), relayed
		}
		response, err := http.ReadResponse(br, &http.Request{Method: method})
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
		if err != nil {
			return strings.Join(append(all, fmt.Sprintf("unreadable (%v)", err)), " "), relayed
		}
		all = append(all, strconv.Itoa(response.StatusCode))
		if response.Header.Get("x-mete-replica") != "" {
			relayed++
		}
		if response.StatusCode >= 200 {
			method = http.MethodGet
		}
	}
}

// each calls f for every run, many at once.
func each(runs []run, f func(run)) {
	jobs := make(chan run)
	var workers sync.WaitGroup
	for range 64 {
		workers.Go(func() {
			for r := range jobs {
				f(r)
			}
		})
	}
	for _, r := range runs {
		jobs <- r
	}
	close(jobs)
	workers.Wait()
}
