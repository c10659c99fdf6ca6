package sim

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

// endless is a request whose answer outlives every test.
func endless(body string) string {
	return strings.Replace(body, `{`, `{"max_tokens":30000,"ignore_eos":true,`, 1)
}

func TestAClientThatLeavesIsNoticedInEveryPhase(t *testing.T) {
	p := FixedProfile(ms, 10*ms, 0)
	p.MaxSeqs = 1
	slow := FixedProfile(time.Hour, 10*ms, 0)
	for _, row := range []struct {
		name    string
		profile *Profile
		body    string
		queued  bool // behind another request
		reach   string
		reset   bool
	}{
		{"waiting in the queue, streaming", &p, streamed, true, "\r\n\r\n", false},
		{"waiting in the queue, not streaming", &p, hello, true, "", false},
		{"waiting for the first token", &slow, streamed, false, "\r\n\r\n", false},
		{"mid-stream", &p, streamed, false, "\n\n", false},
		{"mid-stream, with a reset", &p, streamed, false, "\n\n", true},
		{"not streaming", &p, hello, false, "", false},
		{"an embedding", &slow, `{"input":"x"}`, false, "", false},
		{"in instant mode, while the client does not read", nil, streamed, false, "\r\n\r\n", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := start(t, Config{Profile: row.profile, MaxModelLen: 400000})
			expect := Stats{Running: 1}
			if row.queued {
				first := dial(t, r)
				first.send(t, rawPost(chatPath, endless(streamed)))
				first.until(t, "data: ")
				expect = Stats{Running: 1, Waiting: 1}
			} else if row.profile == &slow {
				expect = Stats{Waiting: 1}
			}
			c := dial(t, r)
			path, body := chatPath, endless(row.body)
			if strings.Contains(row.body, "input") {
				path, body = "/v1/embeddings", row.body
			}
			if row.profile == nil {
				body = strings.Replace(body, "30000", "390000", 1)
			}
			c.send(t, rawPost(path, body))
			if row.reach != "" {
				c.until(t, row.reach)
			}
			await(t, r, func(s Stats) bool { return s.Running == expect.Running && s.Waiting == expect.Waiting })
			if row.reset {
				_ = c.SetLinger(0)
			}
			began := time.Now()
			_ = c.Close()
			await(t, r, func(s Stats) bool {
				return s.Aborted == 1 && s.Running == expect.Running-b2i(!row.queued && expect.Running == 1) && s.Waiting == 0
			})
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("noticed after %v", took)
			}
		})
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestLeavingAfterDoneIsNoAbort(t *testing.T) {
	p := FixedProfile(ms, ms, 0)
	r := start(t, Config{Profile: &p, OutputTokens: 3})
	for range 50 {
		c := dial(t, r)
		c.send(t, rawPost(chatPath, streamed))
		c.until(t, "data: [DONE]\n\n")
		_ = c.Close()
	}
	await(t, r, func(s Stats) bool { return s.Finished == 50 && s.Connections == 0 })
	if s := r.Stats(); s.Aborted != 0 {
		t.Errorf("%+v", s)
	}
}

// refusing is a connection on which the terminating chunk cannot be written.
type refusing struct{ recorder }

func (c *refusing) Write(p []byte) (int, error) {
	if string(p) == "0\r\n\r\n" {
		return 0, syscall.EPIPE
	}
	return c.recorder.Write(p)
}

func TestNobodyHasToReadTheTerminatingChunk(t *testing.T) {
	r := start(t, Config{OutputTokens: 5})
	x := &exchange{r: r, cfg: &r.cfg, conn: &refusing{}}
	x.reset(&Request{Method: "POST", Path: chatPath, minor: 1, Body: []byte(streamed), fields: []field{{"Content-Type", "application/json"}}})
	if err := r.handle(x); !errors.Is(err, errGone) {
		t.Errorf("the connection is still good: %v", err)
	}
	if s := r.Stats(); s.Finished != 1 || s.Aborted != 0 {
		t.Errorf("%+v", s)
	}
}

func TestCloseEndsStreamsWithAbort(t *testing.T) {
	p := FixedProfile(ms, 10*ms, 0)
	r := start(t, Config{Profile: &p})
	mid, whole, idle := dial(t, r), dial(t, r), dial(t, r)
	mid.send(t, rawPost(chatPath, endless(streamed)))
	mid.until(t, "\n\n")
	whole.send(t, rawPost(chatPath, endless(hello)))
	await(t, r, func(s Stats) bool { return s.Running == 2 && s.Connections == 3 })
	began := time.Now()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > closeGrace-500*ms { // nobody had to be waited for
		t.Errorf("closed after %v", took)
	}
	rest, err := mid.rest()
	if err != nil || !strings.HasSuffix(rest, "data: [DONE]\n\n\r\n0\r\n\r\n") || !strings.Contains(rest, `"finish_reason":"abort"`) {
		t.Errorf("stream: %q, %v", rest, err)
	}
	rest, err = whole.rest()
	if err != nil || !strings.Contains(rest, `"finish_reason":"abort"`) {
		t.Errorf("whole: %q, %v", rest, err)
	}
	if rest, err := idle.rest(); rest != "" || err != nil {
		t.Errorf("idle: %q, %v", rest, err)
	}
	if s := r.Stats(); s.Aborted != 2 || s.Active != 0 {
		t.Errorf("%+v", s)
	}
	if err := r.SetFault(Fault{}); !errors.Is(err, errClosing) {
		t.Errorf("SetFault after Close: %v", err)
	}
}

func TestKillResetsEverything(t *testing.T) {
	p := FixedProfile(ms, 10*ms, 0)
	r := start(t, Config{Profile: &p})
	c := dial(t, r)
	c.send(t, rawPost(chatPath, endless(streamed)))
	c.until(t, "\n\n")
	r.Kill()
	if _, err := c.rest(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v", err)
	}
}

func TestCloseDoesNotWaitForAClientThatDoesNotRead(t *testing.T) {
	r := start(t, Config{MaxModelLen: 400000})
	c := dial(t, r)
	c.send(t, rawPost(chatPath, strings.Replace(endless(streamed), "30000", "390000", 1)))
	c.until(t, "\r\n\r\n")
	began := time.Now()
	_ = r.Close()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("closed after %v", took)
	}
}
