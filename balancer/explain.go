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
	Score     float64 `json:"score"`
	State     State   `json:"state"`
}

// Explain says what Acquire would choose, without leasing anything. Of equals,
// and of many, the choice is partly by chance: then it names the best.
func (p *Pool) Explain(need Need) Explanation {
	q := p.question(&need)
	m := p.members.Load()
	e := Explanation{Pool: p.name, Candidates: make([]Candidate, 0, len(m.all))}
	ranks := map[string]int{}
	for _, r := range m.all {
		c := Candidate{ID: r.ID, Score: math.Round(q.score(r))}
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
