package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"mete/bench/sim"
)

// cutter answers with a fixed response, cut at a byte position.
type cutter struct {
	wire []byte
	at   atomic.Int64
	rst  atomic.Bool
	hits atomic.Int64
}

func (c *cutter) serve(_ *sim.Request, conn net.Conn) error {
	c.hits.Add(1)
	if _, err := conn.Write(c.wire[:c.at.Load()]); err != nil {
		return err
	}
	if tcp, ok := conn.(*net.TCPConn); ok && c.rst.Load() {
		_ = tcp.SetLinger(0)
	}
	return io.EOF
}

// TestCutAnswerNeverLooksComplete cuts the replica's answer at every byte, in
// its header and in its body, by FIN and by RST.
func TestCutAnswerNeverLooksComplete(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: "
	stream := events("\n", textChunk, textChunk, doneChunk)
	long := `{"object":"list","data":"` + strings.Repeat("x", wholeAnswer) + `"}`
	for name, c := range map[string]struct {
		wire string
		body string
		step int
	}{
		"a stream in chunks": {
			fmt.Sprintf(head+"text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n",
				200, stream[:200], len(stream)-200, stream[200:]), stream, 1,
		},
		"a stream with a length": {
			fmt.Sprintf(head+"text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(stream), stream), stream, 1,
		},
		"a whole answer with a length": {
			fmt.Sprintf(head+"application/json\r\nContent-Length: %d\r\n\r\n%s", 15, `{"choices":[1]}`), `{"choices":[1]}`, 1,
		},
		"a whole answer in chunks": {
			head + "application/json\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n{\"choic\r\n8;x=y\r\nes\":[1]}\r\n0\r\nA: b\r\n\r\n", `{"choices":[1]}`, 1,
		},
		"a long answer with a length": {
			fmt.Sprintf(head+"application/json\r\nContent-Length: %d\r\n\r\n%s", len(long), long), long, 4999,
		},
	} {
		for _, rst := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, RST %v", name, rst), func(t *testing.T) {
				cut := &cutter{wire: []byte(c.wire)}
				cut.rst.Store(rst)
				r := newRig(t, withScript(cut.serve))
				looksComplete := 0
				for at := 0; at < len(c.wire); at += c.step {
					cut.at.Store(int64(at))
					if r.looksComplete(c.body) {
						looksComplete++
						t.Errorf("cut at %d: the answer looks complete", at)
					}
				}
				cut.at.Store(int64(len(c.wire)))
				if !rst && !r.looksComplete(c.body) {
					t.Error("the answer that was not cut does not look complete")
				}
			})
		}
	}
}

// looksComplete reports whether a client takes the answer for a success, whole.
// What it got must in any case be a beginning of the body.
func (r *rig) looksComplete(body string) bool {
	request := r.request("/v1/chat/completions", chatBody)
	if strings.HasPrefix(body, "data:") {
		request = r.request("/v1/chat/completions", streamBody)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	got, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		return false
	}
	if sent, event, ok := bytes.Cut(got, []byte(`data: {"error":`)); ok {
		if !bytes.HasSuffix(sent, []byte("\n\n")) || !bytes.Contains(event, []byte("replica_failed")) {
			r.Errorf("an error event in the middle of an event: %q", got)
		}
		got = sent
	}
	if !strings.HasPrefix(body, string(got)) {
		r.Errorf("got %q", got)
	}
	return err == nil
}
