package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"mete/balancer"
	"mete/bench/sim"
	"mete/config"
)

func number(x float64) *float64 { return &x }

// twoLooks are at a pool with a replica in every state, a second apart.
func twoLooks() (before, now look) {
	age := int64(1234)
	at := func(served uint64) look {
		v := balancer.View{Pool: "general", Share: 0.5, Retries: 2000, Panicked: true}
		for i, state := range []balancer.State{
			balancer.StateReady, balancer.StateWarming, balancer.StateOpen, balancer.StateSuspect,
			balancer.StateUnhealthy, balancer.StateRefused, balancer.StateWrongModel, balancer.StateMaintenance,
		} {
			r := balancer.ReplicaView{
				ID: fmt.Sprintf("10.255.255.%d:8000", i), State: state, InFlight: 1234567, Breaker: "closed", Prefill: 98765,
				Outcomes: map[string]uint64{"success": served * uint64(8-i), "replica_fault": uint64(i), "unused": 99},
			}
			if state != balancer.StateReady {
				r.Why = strings.Repeat("a long reason ", 20)
			}
			if i%2 == 0 {
				r.Load = balancer.LoadView{AgeMS: &age, Used: true, Running: number(12), Waiting: number(7), KV: number(1)}
			}
			v.Replicas = append(v.Replicas, r)
		}
		v.Replicas[1].ID = strings.Repeat("a-very-long-name.", 5) + "example.com:8000"
		v.Replicas[2].Breaker = "half-open"
		l := look{at: time.Unix(1e9+int64(served), 0), requests: 100 * float64(served), attempts: 103 * float64(served), tokens: 5e4 * float64(served), failed: float64(served), inFlight: 42}
		l.Service, l.Version = "mete", "v1.2.3"
		l.Pools = []balancer.View{{Pool: "embed"}, v}
		l.Sources = []sourceView{{Pool: "general", Source: "consul vllm-general", Fault: strings.Repeat("status 500 ", 20)}}
		return l
	}
	return at(1), at(2)
}

func TestNoLineIsWiderThanTheTerminal(t *testing.T) {
	before, now := twoLooks()
	for _, width := range []int{80, 81, 100, 116, 117, 120, 200} {
		for _, b := range []look{before, {}} {
			for _, line := range (frame{now, b, "http://127.0.0.1:9090", width}).lines() {
				if n := ansi.StringWidth(line); n > width {
					t.Errorf("%d columns on a terminal of %d: %s", n, width, ansi.Strip(line))
				}
			}
		}
	}
}

func TestAFrameShowsWhatMatters(t *testing.T) {
	before, now := twoLooks()
	for width, want := range map[int][]string{
		80: {
			"100 requests/s | 50k tokens/s | 42 in flight | 1.03 attempts each | 2 got 5xx",
			"embed  no replicas are known",
			"general  2 of 8 ready, 50% of its traffic is ours, 2.0k retries left, panic: ...",
			"  consul vllm-general: status 500",
			"REPLICA                STATE       FLIGHT QUEUE   KV BREAKER SHARE REQ/S FAULTS",
			"10.255.255.0:8000      ready         1.2M     7 100% closed    22%   8.0      0",
			"a-very-long-name.a-ve~ warming       1.2M     -    - closed    19%   7.0      1",
			"10.255.255.2:8000      open          1.2M     7 100% half      17%   6.0      2",
			"  `- a long reason",
		},
		120: {
			"PREFILL BATCH QUEUE      KV CACHE   AGE BREAKER",
			"ready         1.2M     99k    12     7 ████████ 100%  1.2s closed    22%   8.0      0    16",
			"-             - never closed",
		},
	} {
		text := ""
		for _, line := range (frame{now, before, "http://127.0.0.1:9090", width}).lines() {
			text += ansi.Strip(line) + "\n"
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%q is not in\n%s", w, text)
			}
		}
	}
}

func TestNumbersAreShort(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 999: "999", 999.6: "1.0k", 1234: "1.2k", 9949: "9.9k", 9960: "10k", 999_499: "999k", 1e6: "1.0M", 45e6: "45M", 2.5e9: "2.5G"} {
		if got := compact(n); got != want || len(got) > 5 {
			t.Errorf("%v: %s, want %s", n, got, want)
		}
	}
}

func TestTopPrintsAFrameOnce(t *testing.T) {
	t.Parallel()
	r := startSim(t, sim.Config{})
	s := startSite(t, withPool(siteConfig(), func(p *config.Pool) { p.Replicas = []string{r.URL()} }))
	l := s.load(20, func(i int) string { return askBody(i, true) })
	s.eventually("a first answer", 20*time.Second, func() bool { return l.whole.Load() > 0 })
	out, _, err := mete(context.Background(), "top", "--once", "--width", "80", "--admin", "http://"+s.running.admin.Addr().String())
	l.end()
	if err != nil || strings.Contains(out, "\x1b") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, pattern := range []string{`(?m)^mete top  http://127`, `(?m)^[1-9][0-9.]* requests/s \| [1-9]\S* tokens/s \| `, `(?m)^general  1 of 1 ready`,
		regexp.QuoteMeta(r.Addr()) + ` +ready +\d+ +\d+ +\d+% closed +100% +[1-9][0-9.]* +0\n`} {
		if !regexp.MustCompile(pattern).MatchString(out) {
			t.Errorf("%s is not in\n%s", pattern, out)
		}
	}
}

func TestTopSaysWhatIsWrong(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for admin, want := range map[string]string{
		"127.0.0.1:9090":     "the admin address must be a URL such as http://127.0.0.1:9090",
		"http://127.0.0.1:1": "no answer from the admin listener: ",
		other.URL:            "answered with status 404: is this the admin listener of a gateway?",
	} {
		_, _, err := mete(context.Background(), "top", "--once", "--admin", admin)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", admin, err)
		}
	}
}

// TestTopLivesUntilQ runs the live view on a terminal of the test's own.
func TestTopLivesUntilQ(t *testing.T) {
	t.Parallel()
	r := startSim(t, sim.Config{})
	s := startSite(t, withPool(siteConfig(), func(p *config.Pool) { p.Replicas = []string{r.URL()} }))
	l, err := newLooker("http://" + s.running.admin.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.client.CloseIdleConnections()
	keys, typed := io.Pipe()
	defer func() { _ = keys.Close() }()
	out, done := &syncBuffer{}, make(chan error, 1)
	go func() {
		done <- topLive(context.Background(), l, tea.WithInput(keys), tea.WithOutput(out), tea.WithWindowSize(100, 20), tea.WithoutSignals())
	}()
	s.eventually("the replica is on the screen", 30*time.Second, func() bool { return strings.Contains(out.String(), r.Addr()) })
	if _, err := typed.Write([]byte("jkq")); err != nil {
		t.Error(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("q did not end it")
	}
}

func TestALongFrameScrolls(t *testing.T) {
	before, now := twoLooks()
	v := &top{now: now, before: before, looker: &looker{base: "http://x"}, width: 80, height: 8}
	first := v.screen()
	for _, c := range []struct {
		keys string
		want string // the first line, in part
	}{{"", "mete top"}, {"j", "requests/s"}, {"jk", "mete top"}, {"k", "mete top"}, {strings.Repeat("j", 500) + "g", "mete top"}, {strings.Repeat("j", 500), "10.255"}} {
		v.offset = 0
		for _, key := range c.keys {
			v.press(string(key))
		}
		lines := v.screen()
		if len(lines) != 8 || !strings.Contains(strings.Join(lines[:2], "\n"), c.want) || !strings.Contains(lines[7], "q quits") {
			t.Errorf("%.10s: %q", c.keys, lines)
		}
	}
	v.height = 100
	if lines := v.screen(); len(lines) != 100 || !bytes.Equal([]byte(lines[0]), []byte(first[0])) {
		t.Errorf("%d lines on a screen of 100", len(lines))
	}
}
