package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"mete/bench/sim"
)

// long makes the measurements that the README quotes in their full length.
var long = flag.Bool("long", false, "run the long form of the measurements")

// TestStreamsAreRelayedByteForByte sends random streams in random pieces, many
// at once. A stream is a function of its seed, so both ends can make it.
func TestStreamsAreRelayedByteForByte(t *testing.T) {
	streams, atOnce := 500, 50
	if *long {
		streams, atOnce = 10000, 200
	}
	r := newRig(t, withScript(sendRandomStream))
	seeds := make(chan uint64)
	var failed sync.Map
	var work sync.WaitGroup
	for range atOnce {
		work.Go(func() {
			for seed := range seeds {
				if err := r.compareStream(seed); err != nil {
					failed.Store(seed, err)
				}
			}
		})
	}
	for seed := range uint64(streams) {
		seeds <- seed
	}
	close(seeds)
	work.Wait()
	mismatches := 0
	failed.Range(func(seed, err any) bool {
		mismatches++
		if mismatches <= 5 {
			t.Errorf("seed %v: %v", seed, err)
		}
		return true
	})
	t.Logf("%d streams, %d at once: %d mismatches", streams, atOnce, mismatches)
}

// compareStream asks for one stream and compares its hash.
func (r *rig) compareStream(seed uint64) error {
	body := fmt.Sprintf(`{"model":"mete","stream":true,"seed":%d,"messages":[{"role":"user","content":"x"}]}`, seed)
	response, err := r.client.Do(r.request("/v1/chat/completions", body))
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	got := sha256.New()
	n, err := io.Copy(got, response.Body)
	if err != nil || response.StatusCode != 200 {
		return fmt.Errorf("status %d after %d bytes: %w", response.StatusCode, n, err)
	}
	want := randomStream(seed)
	if sum := sha256.Sum256(want); !bytes.Equal(sum[:], got.Sum(nil)) {
		return fmt.Errorf("%d bytes came of %d, or others", n, len(want))
	}
	return nil
}

// randomStream makes a stream of events such as no server would send, but may:
// all line ends, comments, huge events, broken UTF-8, no end to the last event.
func randomStream(seed uint64) []byte {
	rnd := rand.New(rand.NewPCG(seed, 1))
	var b bytes.Buffer
	lineEnd := []string{"\n", "\r\n", "\r"}[rnd.IntN(3)]
	for range 1 + rnd.IntN(12) {
		switch rnd.IntN(8) {
		case 0:
			b.WriteString(": comment" + lineEnd)
		case 1:
			b.WriteString("event: x" + lineEnd + "id: 7" + lineEnd)
		}
		b.WriteString(`data: {"choices":[{"delta":{"content":"`)
		b.Write(randomText(rnd))
		b.WriteString(`"}}]}` + lineEnd)
		if rnd.IntN(10) > 0 {
			b.WriteString(lineEnd)
		}
	}
	if rnd.IntN(2) == 0 {
		b.WriteString("data: [DONE]" + lineEnd + lineEnd)
	}
	if rnd.IntN(4) == 0 {
		b.Truncate(b.Len() - len(lineEnd))
	}
	return b.Bytes()
}

func randomText(rnd *rand.Rand) []byte {
	n := rnd.IntN(40)
	switch rnd.IntN(200) {
	case 0:
		n = 1 << 20
	case 1, 2, 3, 4, 5, 6, 7:
		n = 3000 + rnd.IntN(10000)
	}
	text := make([]byte, 0, n+8)
	for len(text) < n {
		text = binary.LittleEndian.AppendUint64(text, rnd.Uint64()|0x8080808080808080) // no line ends, hardly any UTF-8
	}
	return text[:n]
}

// sendRandomStream writes the stream of the request's seed in pieces whose ends
// have nothing to do with events, chunks, or characters.
func sendRandomStream(req *sim.Request, c net.Conn) error {
	_, rest, _ := bytes.Cut(req.Body, []byte(`"seed":`))
	digits, _, _ := bytes.Cut(rest, []byte(","))
	seed, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(seed, 2))
	out := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	wire := append([]byte(out), inChunks(randomStream(seed), rnd)...)
	byteWise := len(wire) < 2000 && rnd.IntN(4) == 0
	for len(wire) > 0 {
		n := 1
		if !byteWise {
			n = min(len(wire), 1+rnd.IntN(20000))
		}
		if _, err := c.Write(wire[:n]); err != nil {
			return err
		}
		wire = wire[n:]
	}
	return nil
}

// inChunks frames b in chunks of random sizes.
func inChunks(b []byte, rnd *rand.Rand) []byte {
	var out []byte
	for len(b) > 0 {
		n := min(len(b), 1+rnd.IntN(1+rnd.IntN(30000)))
		out = fmt.Appendf(out, "%x\r\n%s\r\n", n, b[:n])
		b = b[n:]
	}
	return append(out, "0\r\n\r\n"...)
}

// TestWhatOneReadBringsInIsSentAtOnce holds the replica after each piece until
// the client has it: a relay that keeps anything back would stand still.
func TestWhatOneReadBringsInIsSentAtOnce(t *testing.T) {
	pieces := []string{events("\n", textChunk), textChunk, "\n\n", "data: {\"a\":", "1}\n\ndata: x", "\n\n" + events("\n", doneChunk)}
	received := make(chan struct{})
	r := newRig(t, withScript(func(req *sim.Request, c net.Conn) error {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		for _, p := range pieces {
			_, _ = fmt.Fprintf(c, "%x\r\n%s\r\n", len(p), p)
			select {
			case <-received:
			case <-req.Gone():
				return io.ErrUnexpectedEOF
			}
		}
		_, err := io.WriteString(c, "0\r\n\r\n")
		return err
	}))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	response, err := r.client.Do(r.request("/v1/chat/completions", streamBody).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	for i, want := range pieces {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != want {
			t.Fatalf("piece %d: got %q, %v", i, got, err)
		}
		received <- struct{}{}
	}
	if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
		t.Fatalf("rest %q, %v", rest, err)
	}
}
