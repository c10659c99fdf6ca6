package limits

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mete/auth/redistest"
	"mete/config"
)

// exactPlan has windows that pass several times while the test takes.
func exactPlan(took time.Duration) config.Plan {
	per := took / 6
	return plan(requests(int64(per/(10*time.Millisecond)), per), tokens(int64(per/time.Millisecond)*3, per*3/2))
}

// What a child says of each request: when (by Redis's clock), what was
// reserved, what was used, when it ended; of a refused one, what would have been.
const eventLine = "%s %d %d %d %d\n"

type event struct {
	admitted       bool
	at, ended      int64
	reserved, used int64
}

// offered is how many requests all processes together make in a second: more
// than the plan lets in, so that every window is full, but not a flood.
const offered = 150

func load(l *Limiter, key []byte, took time.Duration) {
	workers := 6
	if took > 10*time.Second {
		workers = 24
	}
	out := bufio.NewWriter(os.Stdout)
	var mu sync.Mutex
	say := func(what string, at, reserved, used, ended int64) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(out, eventLine, what, at, reserved, used, ended)
	}
	end := time.Now().Add(took)
	var work sync.WaitGroup
	for range workers {
		work.Go(func() {
			for time.Now().Before(end) {
				time.Sleep(time.Duration(rand.ExpFloat64() * float64(time.Second) * 4 * float64(workers) / offered))
				loadOne(l, key, say)
			}
		})
	}
	work.Wait()
	_ = out.Flush()
}

func loadOne(l *Limiter, key []byte, say func(string, int64, int64, int64, int64)) {
	prompt, most := 1+rand.Int64N(20), 1+rand.Int64N(60)
	answer := rand.Int64N(most + most/10 + 1)
	takes := time.Duration(rand.ExpFloat64() * float64(20*time.Millisecond))
	a := ask(key, prompt)
	a.MaxTokens = most
	g, err := l.Reserve(context.Background(), a)
	now := l.clock.now()
	var refused *Exceeded
	switch {
	case errors.As(err, &refused):
		say("refused", now, prompt+most, prompt+answer, now+takes.Microseconds())
	case err != nil:
		say("failed", 0, 0, 0, 0)
	case g.Degraded:
		say("degraded", 0, 0, 0, 0)
	default:
		time.Sleep(takes)
		say("admitted", g.renewed, prompt+most, prompt+answer, l.clock.now())
		g.Settle(Usage{Prompt: prompt, Completion: answer})
	}
}

// Four gateway processes let in no more than the limits say, in any true
// sliding window, to the microsecond of Redis's clock.
func TestFourProcessesAreExact(t *testing.T) {
	t.Parallel() // it mostly waits
	took := 3 * time.Second
	if *long {
		took = 30 * time.Second
	}
	s := redistest.Start(t, "--appendonly", "no")
	maker := newRig(t, s.Client(), exactPlan(took))
	key := maker.key("ann")
	var all []event
	var mu sync.Mutex
	var readers sync.WaitGroup
	for range 4 {
		_, out := startChild(t, "load", s.Addr(), key, took)
		readers.Go(func() {
			events, strange := readEvents(out)
			mu.Lock()
			defer mu.Unlock()
			if strange != "" {
				t.Errorf("a gateway said %q", strange)
			}
			all = append(all, events...)
		})
	}
	readers.Wait()
	slices.SortFunc(all, func(a, b event) int { return int(a.at - b.at) })
	p := newPolicy("p", exactPlan(took))
	reportExactness(t, p, all)
}

func readEvents(out io.Reader) (events []event, strange string) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var e event
		var what string
		if _, err := fmt.Sscanf(lines.Text()+"\n", eventLine, &what, &e.at, &e.reserved, &e.used, &e.ended); err != nil {
			strange = lines.Text()
			continue
		}
		switch what {
		case "admitted", "refused":
			e.admitted = what == "admitted"
			events = append(events, e)
		default:
			strange = what
		}
	}
	return events, strange
}

// charge is what an admitted request is charged at its own moment, as known at
// another: what it reserved while it ran, and no more than that afterwards.
func (e *event) charge(s *shape, now int64) int64 {
	if s.kind == Requests {
		return 1
	}
	if e.ended <= now {
		return min(e.used, e.reserved)
	}
	return e.reserved
}

func reportExactness(t *testing.T, p *policy, all []event) {
	t.Helper()
	admitted, refused := 0, 0
	var used, overshoot int64
	for i := range all {
		e := &all[i]
		if !e.admitted {
			refused++
			continue
		}
		admitted++
		used += e.used
		overshoot += max(0, e.used-e.reserved)
	}
	for j := range p.shapes {
		s := &p.shapes[j]
		worst := -s.limit
		for i := range all {
			if all[i].admitted {
				worst = max(worst, trueSum(s, all[:i+1], all[i].at, true)-s.limit)
			}
		}
		t.Logf("%d %s per %v: worst true window minus limit: %d", s.limit, s.kind, s.per, worst)
		if worst > 0 {
			t.Errorf("a true window of %s held %d too many", s.kind, worst)
		}
		if worst < -s.limit/5 {
			t.Errorf("the limit of %s was never nearly reached: this test shows nothing", s.kind)
		}
	}
	ideal := idealLog(p, slices.Clone(all))
	t.Logf("%d arrived, %d admitted; a log of every request would have admitted %d: %.1f%% were refused falsely; used beyond what was reserved: %.2f%% of tokens",
		len(all), admitted, ideal, 100*float64(ideal-admitted)/float64(ideal), 100*float64(overshoot)/float64(max(1, used)))
}

// idealLog is how many of the same arrivals get in when every request is
// remembered with its exact time.
func idealLog(p *policy, all []event) (admitted int) {
	for i := range all {
		e := &all[i]
		e.admitted = true
		for j := range p.shapes {
			s := &p.shapes[j]
			e.admitted = e.admitted && trueSum(s, all[:i], e.at, false)+s.cost(e.reserved) <= s.limit
		}
		if e.admitted {
			admitted++
		}
	}
	return admitted
}

// trueSum is what the true window that ends at now holds of the events before,
// which are in order; final says as it ends up rather than as it was known.
func trueSum(s *shape, before []event, now int64, final bool) (sum int64) {
	for i := len(before) - 1; i >= 0 && before[i].at > now-s.per.Microseconds(); i-- {
		if e := &before[i]; e.admitted && final {
			sum += e.charge(s, e.ended)
		} else if e.admitted {
			sum += e.charge(s, now)
		}
	}
	return sum
}

// A gateway holds its slots for as long as it lives, and no longer than a
// lease when it is killed.
func TestSlotsOfAKilledGatewayComeFree(t *testing.T) {
	t.Parallel() // it mostly waits
	s := redistest.Start(t)
	r := newRig(t, s.Client(), holdPlan())
	key := r.key("ann")
	cmd, out := startChild(t, "hold", s.Addr(), key, 0)
	if line, err := bufio.NewReader(out).ReadString('\n'); strings.TrimSpace(line) != "held" {
		t.Fatalf("the other gateway said %q, %v", line, err)
	}
	for alive := time.Now(); time.Since(alive) < 2*holdLease; time.Sleep(holdLease / 20) {
		if _, err := r.take(key, 1); err == nil {
			t.Fatalf("a slot came free after %v while its holder lives", time.Since(alive))
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	for range 50 {
		eventually(t, "a slot comes free", func() bool { _, err := r.take(key, 1); return err == nil })
	}
	if d := time.Since(killed); d > holdLease+time.Second {
		t.Errorf("slots came free %v after their holder was killed, with leases of %v", d, holdLease)
	}
}
