package main

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mete/balancer"
	"mete/bench/sim"
	"mete/config"
)

// asCommand makes this test's binary be mete, in processes that can be killed.
const asCommand = "METE_TEST_AS_COMMAND"

func init() { //nolint:gochecknoinits // must come before the tests' own flags
	if os.Getenv(asCommand) != "" {
		main()
		os.Exit(0)
	}
}

// process is a simulated replica in a process of its own.
type process struct {
	cmd     *exec.Cmd
	address string
}

func startProcess(t *testing.T, address string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], "sim", "--listen", address, "--model", "mete", "--ttft", "20ms", "--itl", "10ms", "--spread", "0.2")}
	p.cmd.Env = append(os.Environ(), asCommand+"=1")
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(out).ReadString('\n') // its URL, once it listens
	if err != nil {
		t.Fatalf("the replica did not start: %v", err)
	}
	p.address = strings.TrimPrefix(strings.TrimSpace(line), "http://")
	return p
}

// kill sends SIGKILL and waits for the end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// TestNoRequestFailsWhileReplicasAreKilled sends SIGKILL to one of three
// replicas again and again, at 100 requests a second, and starts it again.
func TestNoRequestFailsWhileReplicasAreKilled(t *testing.T) {
	t.Parallel()
	kills, every := 3, 1200*time.Millisecond
	if *long {
		kills, every = 12, 10*time.Second
	}
	cfg := siteConfig()
	replicas := make([]*process, 3)
	for i := range replicas {
		replicas[i] = startProcess(t, "127.0.0.1:0")
		withPool(cfg, func(p *config.Pool) { p.Replicas = append(p.Replicas, "http://"+replicas[i].address) })
	}
	s := startSite(t, cfg)
	l := s.load(100, func(i int) string { return askBody(i, i%3 != 0) })
	var until []time.Duration
	for i := range kills {
		began := time.Now()
		time.Sleep(every / 2)
		r := replicas[i%3]
		killed := time.Now()
		r.kill()
		s.eventually("the dead replica is chosen no more", 10*time.Second, func() bool { return !s.eligible(r.address) })
		until = append(until, time.Since(killed))
		time.Sleep(every/2 - time.Since(killed))
		replicas[i%3] = startProcess(t, r.address)
		s.eventually("the replica is back", 20*time.Second, func() bool { return s.eligible(r.address) })
		time.Sleep(every - time.Since(began))
	}
	l.end()
	slices.Sort(until)
	t.Logf("%d kills, %d requests: %d whole, %d failed before their first byte, %d cut in mid-stream and told, %d cut and not told; dead replica chosen no more after p50 %v, worst %v",
		kills, l.sent, l.whole.Load(), l.failed.Load(), l.cut.Load(), l.silent.Load(), until[len(until)/2], until[len(until)-1])
	if l.failed.Load() != 0 || l.silent.Load() != 0 {
		t.Errorf("failures: %v", l.kinds)
	}
	if l.cut.Load() == 0 || int64(l.sent) != l.whole.Load()+l.cut.Load()+l.failed.Load()+l.silent.Load() {
		t.Error("no stream was cut: the kills came to nothing; or answers were lost")
	}
}

// TestADeadPoolIsNotStormed has all replicas refuse, in each way there is, and
// counts what reaches them.
func TestADeadPoolIsNotStormed(t *testing.T) {
	t.Parallel()
	span := 3 * time.Second
	if *long {
		span = 30 * time.Second
	}
	for name, fault := range map[string]string{
		"every answer is a 503":      "status; code=503",
		"every queue is full":        "queue_full",
		"every stream begins so":     "queue_full; as=event",
		"every stream begins broken": "error; after=0",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var reached atomic.Int64
			cfg := siteConfig()
			parsed, err := sim.ParseFault(fault)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				r := startSim(t, sim.Config{Observe: func(q *sim.Request) {
					if strings.HasPrefix(q.Path, "/v1/chat") {
						reached.Add(1)
					}
				}})
				if err := r.SetFault(parsed); err != nil {
					t.Fatal(err)
				}
				withPool(cfg, func(p *config.Pool) { p.Replicas = append(p.Replicas, r.URL()) })
			}
			s := startSite(t, cfg)
			l := s.load(200, func(i int) string { return askBody(i, true) })
			time.Sleep(span)
			l.end()
			share := float64(reached.Load()) / float64(l.sent)
			t.Logf("%d requests, %d upstream attempts: %.3f for each", l.sent, reached.Load(), share)
			// Ten retries may be on credit when a pool has had no requests before.
			if most := 1.2*float64(l.sent) + 10; reached.Load() == 0 || float64(reached.Load()) > most {
				t.Errorf("%d attempts, want 1 to %.0f", reached.Load(), most)
			}
			if l.whole.Load() != 0 {
				t.Errorf("%d answers look complete", l.whole.Load())
			}
		})
	}
}

// TestAReplicaThatServesSomethingElseIsHeldOut starts one with another model.
func TestAReplicaThatServesSomethingElseIsHeldOut(t *testing.T) {
	t.Parallel()
	right, wrong := startSim(t, sim.Config{}), startSim(t, sim.Config{Models: []string{"llama"}})
	s := startSite(t, withPool(siteConfig(), func(p *config.Pool) { p.Replicas = []string{right.URL(), wrong.URL()} }))
	s.eventually("held out", 20*time.Second, func() bool { return !s.eligible(wrong.Addr()) })
	for range 20 {
		if a := s.ask(helloBody); a.status != 200 || a.replica != right.Addr() {
			t.Fatalf("%+v", a)
		}
	}
	var view poolsView
	s.admin("/debug/pools", &view)
	for _, r := range view.Pools[0].Replicas {
		if r.ID == wrong.Addr() && (r.State != balancer.StateWrongModel || r.Why != "does not serve mete but llama") {
			t.Errorf("%s, %s", r.State, r.Why)
		}
	}
}

// TestAdaptersAreModels routes to a LoRA adapter that one of two replicas has.
func TestAdaptersAreModels(t *testing.T) {
	t.Parallel()
	plain, tuned := startSim(t, sim.Config{}), startSim(t, sim.Config{LoRA: []string{"tuned"}})
	body := strings.Replace(helloBody, `"mete"`, `"tuned"`, 1)
	for _, on := range []bool{true, false} {
		s := startSite(t, withPool(siteConfig(), func(p *config.Pool) {
			p.Replicas, p.Adapters = []string{plain.URL(), tuned.URL()}, on
		}))
		s.eventually("the adapter is known", 20*time.Second, func() bool { return s.pools()["general"].Serves("tuned") })
		for range 8 {
			a := s.ask(body)
			switch {
			case on && (a.status != 200 || a.replica != tuned.Addr() || !strings.Contains(a.body, `"model":"tuned"`)):
				t.Fatalf("%+v", a)
			case !on && (a.status != 404 || !strings.Contains(a.body, "model_not_found")):
				t.Fatalf("adapters are off: %+v", a)
			}
		}
		if a := s.ask(strings.Replace(helloBody, `"mete"`, `"nobody"`, 1)); a.status != 404 {
			t.Errorf("%+v", a)
		}
	}
}
