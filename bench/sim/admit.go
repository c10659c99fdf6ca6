package sim

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
)

// admit gives the call a place: false when the queue is full. The ticket must
// be released.
func (r *Replica) admit(x *exchange, q *call, answers []answer) (*ticket, bool) {
	t := &ticket{r: r, x: x, weight: int64(len(answers)), arrived: time.Now()}
	if !r.meters.enter(t.weight, int64(r.cfg.MaxQueued)) {
		return nil, false
	}
	r.meters.prompts.Add(int64(sum(q.counts) * q.n))
	if len(r.engines) == 0 {
		return t, true
	}
	t.pacer = r.pick(x.req.Header("x-data-parallel-rank"))
	t.changed = make(chan struct{}, 1)
	t.shares = make([]share, len(answers))
	for i := range answers {
		t.shares[i].t = t
		job := r.job(q, i/q.n, &answers[i])
		job.Owner = &t.shares[i]
		s, err := t.pacer.submit(job)
		t.shares[i].sequence = s
		if errors.Is(err, ErrTooLarge) {
			t.shares = t.shares[:i]
			t.release()
			return nil, false
		}
	}
	return t, true
}

// job describes one choice to the engine. The hashes run on through the answer,
// because the next turn of a chat sends it back as a part of its prompt.
func (r *Replica) job(q *call, prompt int, a *answer) Job {
	text := q.prompts[prompt]
	if !q.pools() {
		text += a.text(reasoning) + a.text(content)
	}
	salt := xxhash.Sum64String(q.salt) ^ mix(xxhash.Sum64String(r.cfg.answerModel(q.model)))
	return Job{
		Prompt: max(1, q.counts[prompt]),
		Output: len(a.pieces),
		Blocks: BlockHashes(text, r.profile.BlockSize, salt),
	}
}

// pick chooses the engine as vLLM's data-parallel balancer does: the least of
// four times its waiting plus its running sequences, or the rank asked for.
func (r *Replica) pick(rank string) *pacer {
	if i, err := strconv.Atoi(rank); err == nil && i >= 0 && i < len(r.engines) {
		return r.engines[i]
	}
	if len(r.engines) == 1 {
		return r.engines[0]
	}
	best, least := r.engines[0], math.MaxInt
	for _, p := range r.engines {
		l := p.load()
		if score := 4*l.Waiting + l.Running; score < least {
			best, least = p, score
		}
	}
	return best
}

func sum(numbers []int) (total int) {
	for _, n := range numbers {
		total += n
	}
	return total
}
