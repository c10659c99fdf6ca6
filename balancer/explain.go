package balancer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Explanation says which replica would be chosen, and why.
type Explanation struct {
	Pool       string      `json:"pool"`
	Chosen     string      `json:"chosen"` // the most likely one; empty if there is none
	Why        string      `json:"why"`
	Candidates []Candidate `json:"candidates"` // the best first
}

// Candidate is a replica in a choice.
type Candidate struct {
	ID        string  `json:"id"`
	Eligible  bool    `json:"eligible"`
	Objection string  `json:"objection,omitempty"`
	Score     float64 `json:"score"` // expected milliseconds to the first token, and what it costs others; the sum of Terms, times Terms.Full
	Terms     Terms   `json:"terms"`
	State     State   `json:"state"`
}

// Terms are what a score is made of, in milliseconds.
type Terms struct {
	Step     float64 `json:"step"`            // that every answer waits for
	Places   float64 `json:"places"`          // requests of this gateway there
	Queued   float64 `json:"queued"`          // their prompts that wait
	Others   float64 `json:"others"`          // other gateways' requests
	Prompt   float64 `json:"prompt"`          // what of this one's has to be computed
	Full     float64 `json:"full"`            // factor for a cache that is running full
	Uncached int64   `json:"uncached_tokens"` // of the prompt
	Home     bool    `json:"home"`            // the like of it is sent there by other gateways
	Speed    float64 `json:"tokens_per_ms"`   // learned from its answers
}

func (q *question) terms(r *Replica) Terms {
	w, speed := q.work(r), q.speed(r)
	return Terms{
		Step: round(w.step / speed), Places: round(w.places / speed), Queued: round(w.queued / speed),
		Others: round(w.others / speed), Prompt: round(w.prompt / speed), Full: round(w.full),
		Uncached: q.uncached(r), Home: r.slot == q.home, Speed: round(speed),
	}
}

// Explain says what Acquire would choose, without leasing anything. Of equals,
// and of many, the choice is partly by chance: then it names the best.
func (p *Pool) Explain(need Need) Explanation {
	q := p.question(&need)
	m := p.members.Load()
	if len(need.Blocks) > 0 {
		q.look(&p.known, m)
	}
	e := Explanation{Pool: p.name, Candidates: make([]Candidate, 0, len(m.all))}
	ranks := map[string]int{}
	for _, r := range m.all {
		c := Candidate{ID: r.ID, Score: round(q.score(r)), Terms: q.terms(r)}
		c.State, _ = r.State()
		ranks[r.ID], c.Objection = q.rank(m, r)
		c.Eligible = c.Objection == ""
		e.Candidates = append(e.Candidates, c)
	}
	slices.SortStableFunc(e.Candidates, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(ranks[a.ID], ranks[b.ID]), cmp.Compare(a.Score, b.Score))
	})
	e.conclude(ranks, m)
	return e
}

// round keeps a hundredth of a millisecond.
func round(ms float64) float64 { return math.Round(ms*100) / 100 }

// The order in which replicas are used: see question.choose.
const (
	rankReady = iota
	rankSuspect
	rankFull
	rankNever
)

// rank tells when a replica would be used, and what speaks against it now.
func (q *question) rank(m *members, r *Replica) (int, string) {
	q.patient = true
	objection := q.objection(r)
	switch {
	case slices.Contains(m.ready, r) && objection == "":
		return rankReady, ""
	case slices.Contains(m.suspects, r) && objection == "":
		return rankSuspect, ""
	case slices.Contains(m.ready, r):
		q.patient = false
		if q.objection(r) == "" {
			return rankFull, ""
		}
		return rankNever, objection
	}
	_, why := r.State()
	return rankNever, cmp.Or(why, objection)
}

// conclude puts the outcome into words.
func (e *Explanation) conclude(ranks map[string]int, m *members) {
	if len(e.Candidates) == 0 {
		e.Why = "the pool is empty"
		return
	}
	best := e.Candidates[0]
	rank, equals := ranks[best.ID], 0
	for _, c := range e.Candidates {
		if ranks[c.ID] == rank && c.Score == best.Score {
			equals++
		}
	}
	if rank == rankNever {
		e.Why = "every replica is held out, full or to be avoided"
		return
	}
	e.Chosen, e.Why = best.ID, reasons[rank]
	if equals > 1 {
		e.Why = fmt.Sprintf("%s, by chance among %d equals", e.Why, equals)
	} else if len(m.ready) > fewReplicas && rank != rankSuspect {
		e.Why += "; two are drawn by chance, so it is the likeliest, not the certain one"
	}
	if m.panicked {
		e.Why += "; fewer than half are healthy, so failed checks are not believed"
	}
}

var reasons = [...]string{
	rankReady:   "the least score of those that are ready",
	rankSuspect: "no replica is ready, and suspects are used",
	rankFull:    "the queue of every replica was full a moment ago",
}
