package balancer

import (
	"math"
	"time"
)

// View is a pool as it is now, to be shown as JSON.
type View struct {
	Pool     string        `json:"pool"`
	Panicked bool          `json:"panicked"` // fewer than half are healthy: checks are not believed
	Share    float64       `json:"share"`    // of the traffic on the replicas, which is this gateway's
	Retries  float64       `json:"retries"`  // that the budget would grant now
	Replicas []ReplicaView `json:"replicas"`
}

// ReplicaView is a replica as it is now. What is not known is null: nothing is
// guessed.
type ReplicaView struct {
	ID       string            `json:"id"`
	State    State             `json:"state"`
	Why      string            `json:"why,omitempty"`
	InFlight int64             `json:"in_flight"`
	Prefill  int64             `json:"prefill_tokens"`
	Capacity float64           `json:"capacity"` // its weight, less during the slow start
	Score    float64           `json:"score"`    // with one more request; the least is best
	Breaker  string            `json:"breaker"`
	Load     LoadView          `json:"load"`
	Health   HealthView        `json:"health"`
	Models   []Model           `json:"models"`
	NoModels string            `json:"models_fault,omitempty"`
	Outcomes map[string]uint64 `json:"outcomes"`
}

// LoadView is what a replica said of its load.
type LoadView struct {
	Source  string   `json:"source,omitempty"` // metrics or orca
	AgeMS   *int64   `json:"age_ms"`
	Used    bool     `json:"used"` // fresh enough to be believed
	Running *float64 `json:"running"`
	Waiting *float64 `json:"waiting"`
	KV      *float64 `json:"kv"`
	Others  *float64 `json:"others"` // requests there that are not ours
	Fault   string   `json:"fault,omitempty"`
}

// HealthView is what the checks of a replica found.
type HealthView struct {
	AgeMS *int64 `json:"age_ms"` // of the last check
	Fails int    `json:"fails"`  // in a row
	Fault string `json:"fault,omitempty"`
}

// Snapshot is the pool as it is now.
func (p *Pool) Snapshot() View {
	need := Need{}
	q := p.question(&need)
	m := p.members.Load()
	v := View{
		Pool: p.name, Panicked: m.panicked, Share: q.share,
		Retries:  max(0, float64(p.budget.balance.Load())/budgetRetry),
		Replicas: make([]ReplicaView, len(m.all)),
	}
	for i, r := range m.all {
		v.Replicas[i] = r.view(&q)
	}
	return v
}

func (r *Replica) view(q *question) ReplicaView {
	v := ReplicaView{
		ID: r.ID, InFlight: r.InFlight(), Prefill: r.Prefill(),
		Capacity: r.capacity(q.now), Score: round(q.score(r)),
		Breaker: r.breaker.now().String(), Load: r.signal.view(q.now),
		Models: r.Models(), Outcomes: map[string]uint64{},
	}
	v.State, v.Why = r.State()
	for _, o := range Outcomes() {
		v.Outcomes[o.String()] = r.Ended(o)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	v.Health = HealthView{AgeMS: age(q.now, r.check.at), Fails: r.check.fails, Fault: r.check.fault}
	v.NoModels = r.check.noModels
	return v
}

func (s *signal) view(now int64) LoadView {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := LoadView{Source: s.source, Fault: s.fault, AgeMS: age(now, s.at.Load()), Used: s.belief(now) > 0}
	if v.AgeMS == nil {
		return v
	}
	others := math.Float64frombits(s.others.Load())
	v.Running, v.Waiting, v.KV = said(s.load.Running), said(s.load.Waiting), said(s.load.KV)
	v.Others = &others
	return v
}

func said(x float64) *float64 {
	if x < 0 {
		return nil
	}
	return &x
}

func age(now, at int64) *int64 {
	if at == 0 {
		return nil
	}
	ms := (now - at) / int64(time.Millisecond)
	return &ms
}
