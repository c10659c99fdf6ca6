package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"mete/bench/sim"
)

// rawWait bounds a wait for bytes that should come at once, on a busy machine.
const rawWait = 20 * time.Second

// wireClient is a client that sends exactly what it is told to.
type wireClient struct {
	*testing.T
	*net.TCPConn
	br *bufio.Reader
}

// open connects to the gateway and sends wire.
func (r *rig) open(wire string) *wireClient {
	r.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(rawWait))
	client := &wireClient{r.T, c.(*net.TCPConn), bufio.NewReader(c)}
	client.send(wire)
	return client
}

// send may fail: a gateway that refuses the beginning need not read the rest.
func (c *wireClient) send(wire string) { _, _ = io.WriteString(c, wire) }

// answer reads the answer to a request of this method.
func (c *wireClient) answer(method string) *http.Response {
	c.Helper()
	response, err := http.ReadResponse(c.br, &http.Request{Method: method})
	if err != nil {
		c.Fatal("no answer:", err)
	}
	return response
}

// ended waits for the next byte, and tells whether the connection's end has
// come in its place. A reset is one too: what was written before it is there.
func (c *wireClient) ended() bool {
	_, err := c.br.Peek(1)
	return err == io.EOF || errors.Is(err, syscall.ECONNRESET)
}

// wantEnd expects the gateway to close the connection: with a FIN, because a
// reset may overtake the answer.
func (c *wireClient) wantEnd() {
	c.Helper()
	switch rest, err := io.ReadAll(c.br); {
	case err != nil:
		c.Error("the connection was not closed in peace:", err)
	case len(rest) > 0:
		c.Errorf("behind the answer came %q", rest)
	}
}

// postHead is a request's head up to its framing.
func postHead(path string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + testKey + "\r\nContent-Type: application/json\r\n"
}

// postWire is a whole request.
func postWire(path, body string) string {
	return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", postHead(path), len(body), body)
}

// answering is a script that sends wire whatever it is asked.
func answering(wire string) func(*sim.Request, net.Conn) error {
	return func(_ *sim.Request, c net.Conn) error {
		_, err := io.WriteString(c, wire)
		return err
	}
}

func jsonWire(text string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

const lastChunk = "0\r\n\r\n"

// counted reads the counters of one metric that are not nought, by their
// labels' values, and the counts of histograms.
func (r *rig) counted(name string) map[string]float64 {
	r.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "mete_"+name {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			if n := m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount()); n != 0 {
				got[strings.Join(labels, " ")] = n
			}
		}
	}
	return got
}

// wantCounted expects these counters of a metric and no others.
func (r *rig) wantCounted(name string, want map[string]float64) {
	r.Helper()
	if got := r.counted(name); fmt.Sprint(got) != fmt.Sprint(want) {
		r.Errorf("%s: got %v, want %v", name, got, want)
	}
}
