package balancer

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// held makes a pool of one replica for each reason, in that order.
func heldPool(t *testing.T, reasons ...Held) *Pool {
	t.Helper()
	endpoints := Static(urls(len(reasons)))
	for i, h := range reasons {
		endpoints[i].Held, endpoints[i].Why = h, "as told"
	}
	p := newPool(t, 0, Options{})
	if err := p.Publish("consul", endpoints); err != nil {
		t.Fatal(err)
	}
	return p
}

// chosen lists the replicas that 200 requests go to, by their place in the pool.
func chosen(t *testing.T, p *Pool) []int {
	t.Helper()
	var list []int
	for range 200 {
		l, err := p.Acquire(context.Background(), Need{})
		if err != nil {
			break
		}
		if i := slices.Index(p.Replicas(), l.Replica()); !slices.Contains(list, i) {
			list = append(list, i)
		}
	}
	slices.Sort(list)
	return list
}

func TestWhichReplicasAreUsed(t *testing.T) {
	ok, critical, maintenance, suspect := HeldNot, HeldCritical, HeldMaintenance, HeldSuspect
	for _, c := range []struct {
		name    string
		reasons []Held
		also    func(p *Pool)
		want    []int
	}{
		{"all that are well", []Held{ok, ok, ok}, nil, []int{0, 1, 2}},
		{"not the critical, while half are well", []Held{ok, critical}, nil, []int{0}},
		{"the critical too, when fewer than half are well", []Held{ok, critical, critical}, nil, []int{0, 1, 2}},
		{"all, when all are critical", []Held{critical, critical}, nil, []int{0, 1}},
		{"never one in maintenance", []Held{maintenance, critical}, nil, []int{1}},
		{"those in maintenance are not missed", []Held{ok, critical, maintenance, maintenance}, nil, []int{0}},
		{"never one that refused a connection", []Held{critical, critical, critical}, func(p *Pool) {
			p.hold(p.Replicas()[0], holdRefused, "refused")
		}, []int{1, 2}},
		{"never one that serves something else", []Held{critical, critical, critical}, func(p *Pool) {
			p.hold(p.Replicas()[0], holdModel, "serves x")
		}, []int{1, 2}},
		{"no suspect, while another can be used", []Held{ok, suspect, suspect}, nil, []int{0}},
		{"suspects, when no other can be used", []Held{maintenance, suspect, suspect}, nil, []int{1, 2}},
		{"suspects, when the others are open", []Held{ok, suspect}, func(p *Pool) {
			for range 5 {
				p.Replicas()[0].breaker.failed()
			}
		}, []int{1}},
		{"no suspect that fails its checks", []Held{maintenance, suspect, suspect}, func(p *Pool) {
			p.hold(p.Replicas()[1], holdCheck, "503")
		}, []int{2}},
		{"not one whose queue was full, while another can be used", []Held{ok, ok}, func(p *Pool) {
			p.heed(p.Replicas()[0], QueueFull)
		}, []int{1}},
		{"one whose queue was full, when no other can be used", []Held{ok, maintenance}, func(p *Pool) {
			p.heed(p.Replicas()[0], QueueFull)
		}, []int{0}},
	} {
		p := heldPool(t, c.reasons...)
		if c.also != nil {
			c.also(p)
		}
		best := p.Explain(Need{})
		if got := chosen(t, p); !slices.Equal(got, c.want) {
			t.Errorf("%s: used %v, want %v", c.name, got, c.want)
		}
		i := slices.IndexFunc(p.Replicas(), func(r *Replica) bool { return r.ID == best.Chosen })
		if !slices.Contains(c.want, i) {
			t.Errorf("%s: explained with %q (%s), want one of %v", c.name, best.Chosen, best.Why, c.want)
		}
	}
}

func TestANewReplicaBeginsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 3, Options{})
		time.Sleep(time.Minute)
		if err := p.Update(Static(urls(4))); err != nil {
			t.Fatal(err)
		}
		rs := p.Replicas()
		for _, c := range []struct {
			after time.Duration
			want  float64
		}{{0, 0.1}, {15 * time.Second, 0.5}, {30 * time.Second, 1}} {
			if got := rs[3].capacity(p.clock()); got < c.want-0.01 || got > c.want+0.01 {
				t.Errorf("after %s its capacity is %.2f, want %.2f", c.after, got, c.want)
			}
			if got := rs[0].capacity(p.clock()); got != 1 {
				t.Errorf("the capacity of an old one is %.2f, want 1", got)
			}
			time.Sleep(15 * time.Second)
		}
	})
}

func TestOnlyALongAbsenceMakesAReplicaCold(t *testing.T) {
	for _, c := range []struct {
		bit  uint32
		gone time.Duration
		cold bool
	}{
		{holdRefused, time.Second, false},
		{holdRefused, 10 * time.Second, true},
		{holdCheck, 10 * time.Second, true},
		{holdSuspect, 10 * time.Second, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, 2, Options{})
			r := p.Replicas()[0]
			p.hold(r, c.bit, "away")
			time.Sleep(c.gone)
			p.hold(r, c.bit, "")
			if cold := r.capacity(p.clock()) < 1; cold != c.cold {
				t.Errorf("hold %b for %s: cold %v, want %v", c.bit, c.gone, cold, c.cold)
			}
		})
	}
}

func TestAWeightIsAShare(t *testing.T) {
	p := newPool(t, 0, Options{})
	e := Static(urls(2))
	e[1].Weight = 3
	if err := p.Publish("consul", e); err != nil {
		t.Fatal(err)
	}
	for range 400 {
		mustAcquire(t, p, Need{})
	}
	if n := p.Replicas()[1].InFlight(); n < 295 || n > 305 {
		t.Errorf("weight 3 beside 1 has %d of 400 in flight, want about 300", n)
	}
}

func TestWhatOthersHaveThereCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 2, Options{})
		busy := p.Replicas()[0]
		busy.signal.told(Load{Running: 40, Waiting: 10, KV: 0.5}, 0, p.clock(), "metrics")
		p.weighShare()
		if got := chosenFirst(t, p); got != 1 {
			t.Error("the replica that others fill was chosen")
		}
		time.Sleep(signalLife)
		if l := p.Snapshot().Replicas[0].Load; l.Used || *l.AgeMS != 2000 {
			t.Errorf("an old load is used: %+v", l)
		}
		if p.Replicas()[0].workOf(0, 1, p.clock()) != p.Replicas()[1].workOf(0, 1, p.clock()) {
			t.Error("an old load still counts")
		}
	})
}

func chosenFirst(t *testing.T, p *Pool) int {
	l := mustAcquire(t, p, Need{})
	defer l.Done(Success)
	return slices.Index(p.Replicas(), l.Replica())
}

func TestSourcesDoNotDisturbEachOther(t *testing.T) {
	p := newPool(t, 1, Options{Models: []string{"m"}})
	consul := []Endpoint{{URL: "http://c:8000", Models: []string{"m"}}, {URL: "http://d:8000", Models: []string{"x"}}, {URL: urls(1)[0]}}
	if err := p.Publish("consul", consul); err != nil {
		t.Fatal(err)
	}
	if rs := p.Replicas(); len(rs) != 3 || rs[0].ID != "10.0.0.0:8000" || rs[1].ID != "c:8000" {
		t.Fatalf("got %v", rs)
	}
	if state, why := p.Replicas()[2].State(); state != StateWrongModel || why != "does not serve m but x" {
		t.Errorf("%s, %s; want wrong_model by the source's word", state, why)
	}
	consul[1].Models = []string{"m"}
	if err := p.Publish("consul", consul); err != nil {
		t.Fatal(err)
	}
	if state, _ := p.Replicas()[2].State(); state != StateReady {
		t.Errorf("%s, want ready after the source has changed its word", state)
	}
	if err := p.Publish("consul", nil); err != nil {
		t.Fatal(err)
	}
	if rs := p.Replicas(); len(rs) != 1 || rs[0].ID != "10.0.0.0:8000" {
		t.Errorf("got %v, want the static one", rs)
	}
}

func TestTheViewsAreJSON(t *testing.T) {
	p := heldPool(t, HeldNot, HeldMaintenance)
	p.Replicas()[0].ObserveORCA([]byte("TEXT named_metrics.num_requests_waiting=3.0"))
	text, err := json.Marshal(p.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"state":"maintenance","why":"maintenance: as told"`, `"source":"orca"`, `"running":null,"waiting":3,"kv":null`,
		`"age_ms":null`, `"breaker":"closed"`, `"client_left":0`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
}

func TestAnExplanationSaysWhyNot(t *testing.T) {
	p := heldPool(t, HeldNot, HeldNot, HeldMaintenance)
	rs := p.Replicas()
	e := p.Explain(Need{Avoid: [2]*Replica{rs[0]}})
	if e.Chosen != rs[1].ID || !strings.Contains(e.Why, "least score") {
		t.Errorf("chose %q: %s", e.Chosen, e.Why)
	}
	got := map[string]string{}
	for _, c := range e.Candidates {
		got[c.ID] = c.Objection
	}
	if got[rs[0].ID] != "already tried by this request" || got[rs[2].ID] != "maintenance: as told" || got[rs[1].ID] != "" {
		t.Errorf("objections %v", got)
	}
	if e := newPool(t, 0, Options{}).Explain(Need{}); e.Chosen != "" || e.Why != "the pool is empty" {
		t.Errorf("an empty pool: %+v", e)
	}
	if e := heldPool(t, HeldMaintenance).Explain(Need{}); e.Chosen != "" || !strings.HasPrefix(e.Why, "every replica is held out") {
		t.Errorf("all in maintenance: %+v", e)
	}
	if e := newPool(t, 3, Options{}).Explain(Need{}); !strings.Contains(e.Why, "among 3 equals") {
		t.Errorf("three equals: %+v", e)
	}
	if e := newPool(t, 30, Options{}).Explain(Need{}); e.Chosen == "" {
		t.Errorf("many: %+v", e)
	}
}
