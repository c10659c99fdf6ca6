package sim

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestHangsStopWhereTheyShould(t *testing.T) {
	r := start(t, Config{OutputTokens: 9})
	for _, row := range []struct{ name, fault, body, last string }{
		{"before the header", "hang", hello, ""},
		{"before the body of a stream", "hang; where=body", streamed, "\r\n\r\n"},
		{"before the body of a whole answer", "hang; where=body", hello, "\r\n\r\n"},
		{"mid-stream", "hang; where=event; after=3", streamed, "\n\n\r\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			before := r.Stats()
			c := dial(t, r)
			c.send(t, rawPost(chatPath, row.body, "x-sim-fault: "+row.fault))
			await(t, r, func(s Stats) bool { return s.Active == 1 })
			_ = c.SetReadDeadline(time.Now().Add(100 * ms))
			got, err := c.rest()
			if !isTimeout(err) || !strings.HasSuffix(got, row.last) || (row.last == "") != (got == "") {
				t.Errorf("%q, %v", got, err)
			}
			if strings.HasPrefix(row.fault, "hang; where=event") && strings.Count(got, "data: ") != 3 {
				t.Errorf("%q", got)
			}
			_ = c.Close()
			await(t, r, func(s Stats) bool { return s.Active == 0 && s.Aborted == before.Aborted+1 })
		})
	}
	if status, _ := post(t, r, chatPath, hello, "x-sim-fault", "hang; for=20ms"); status != 200 {
		t.Errorf("after its time a hang goes on, got %d", status)
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

func TestSlowHoldsEventsBack(t *testing.T) {
	r := start(t, Config{OutputTokens: 4})
	began := time.Now()
	post(t, r, chatPath, streamed, "x-sim-fault", "slow; factor=2; pause=5ms")
	if took := time.Since(began); took < 70*ms { // role, 4 words, finish, [DONE]
		t.Errorf("took %v", took)
	}
	p := FixedProfile(5*ms, 5*ms, 0)
	timed := start(t, Config{Profile: &p, OutputTokens: 5})
	_ = timed.SetFault(Fault{Kind: Slow, Factor: 8})
	began = time.Now()
	post(t, timed, chatPath, streamed)
	if took := time.Since(began); took < 180*ms {
		t.Errorf("slow engine took %v", took)
	}
}

func TestRefuseClosesTheListenerAndOpensItAgain(t *testing.T) {
	r := start(t, Config{})
	open := dial(t, r)
	if err := r.SetFault(Fault{Kind: Refuse}); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", r.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v", err)
	}
	open.send(t, rawPost(chatPath, hello))
	mustContain(t, open.until(t, "\r\n\r\n"), "200 OK")
	if err := r.SetFault(Fault{}); err != nil {
		t.Fatal(err)
	}
	if status, _ := post(t, r, chatPath, hello); status != 200 {
		t.Errorf("got %d", status)
	}
	_ = r.SetFault(Fault{Kind: Refuse, For: 10 * ms})
	await(t, r, func(Stats) bool {
		c, err := net.Dial("tcp", r.Addr())
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

func TestADeadEngineShowsInHealth(t *testing.T) {
	r := start(t, Config{})
	_ = r.SetFault(Fault{Kind: Dead})
	for _, row := range []struct {
		method, path string
		status       int
	}{{"GET", "/health", 503}, {"GET", "/ping", 503}, {"GET", "/v1/models", 200}, {"POST", chatPath, 500}} {
		resp, body, err := do(t, r, row.method, row.path, hello)
		if err != nil || resp.StatusCode != row.status || row.status == 503 && len(body) > 0 {
			t.Errorf("%s: %v %s %v", row.path, resp, body, err)
		}
	}
	if resp, _, _ := do(t, r, "DELETE", "/sim/fault", ""); resp.StatusCode != 204 {
		t.Errorf("DELETE: %d", resp.StatusCode)
	}
	if resp, _, _ := do(t, r, "GET", "/health", ""); resp.StatusCode != 200 {
		t.Errorf("health: %d", resp.StatusCode)
	}
}

func TestFaultsReachOtherPathsByHeaderOrName(t *testing.T) {
	r := start(t, Config{})
	if resp, _, _ := do(t, r, "GET", "/metrics", "", "x-sim-fault", "status; code=500; shape=plain"); resp.StatusCode != 500 {
		t.Errorf("by header: %d", resp.StatusCode)
	}
	_ = r.SetFault(Fault{Kind: Cut, At: 10, Of: "body", Path: "/metrics"})
	if _, got, err := do(t, r, "GET", "/metrics", ""); !errors.Is(err, io.ErrUnexpectedEOF) || len(got) != 10 {
		t.Errorf("by path: %q, %v", got, err)
	}
	if status, _ := post(t, r, chatPath, hello); status != 200 {
		t.Errorf("inference: %d", status)
	}
}
