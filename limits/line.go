package limits

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

const (
	// flights is how many batches are on their way to Redis at one time. The
	// fewer, the more requests share a round trip when there are many; a lone
	// request never waits for another.
	flights = 2

	maxBatch = 256 // admissions in one batch
	maxRide  = 64  // settlements that go along with them
	maxEnds  = 1 << 17
)

// line is where runs of the scripts wait for Redis. Whoever comes while fewer
// than flights batches are out takes everything that waits and goes; whoever
// comes later waits, and the first of those goes next. There is no goroutine
// in between, and nobody waits alone.
//
// Settlements wait beside the admissions and go ahead of them in the next
// batch: no round trip of their own, and a caller who ends a request and
// starts another finds its slot free.
type line struct {
	rdb     redis.UniversalClient
	timeout time.Duration
	breaker *gobreaker.CircuitBreaker[struct{}]
	clock   *clock
	ended   func(*op) // takes a settlement back once Redis has answered it
	called  func(took time.Duration, err error)
	kick    chan struct{} // settlements wait and nobody may come by

	mu      sync.Mutex
	waiting []*op
	ends    []*op
	flying  int
	dropped int64 // settlements given up, see end
	batches sync.Pool

	// The context of the batches of the next moments; see inTime.
	ctx    context.Context
	cancel context.CancelFunc
	until  time.Time
}

// run runs an admission and leaves its outcome in o.
func (n *line) run(o *op) {
	n.mu.Lock()
	if n.flying == flights {
		n.waiting = append(n.waiting, o)
		n.mu.Unlock()
		<-o.wake
		if !o.lead {
			return
		}
		o.lead = false
		n.mu.Lock()
	} else {
		n.flying++
	}
	_ = n.fly(o) // o keeps its error
}

// end queues a settlement. If Redis is away for so long that too many wait,
// the oldest is dropped: its lease lapses by itself, and what it reserved stays
// charged.
func (n *line) end(o *op) {
	n.mu.Lock()
	n.ends = append(n.ends, o)
	if len(n.ends) > maxEnds {
		n.ended(n.ends[0])
		n.ends = n.ends[1:]
		n.dropped++
	}
	n.mu.Unlock()
	n.nudge()
}

// flush sends waiting settlements if a flight is free; if not, whoever lands
// next sees to it. It reports whether there was nothing to do or it went well.
func (n *line) flush() bool {
	n.mu.Lock()
	if n.flying == flights || len(n.ends) == 0 {
		n.mu.Unlock()
		return true
	}
	n.flying++
	return n.fly(nil) == nil
}

// inTime is a context that ends when a batch that is sent now has taken too
// long, or up to a tenth of that earlier: batches share one, since making a
// context costs a lone request a fifth of its time.
func (n *line) inTime(now time.Time) context.Context {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.until.Sub(now) < n.timeout*9/10 {
		n.until = now.Add(n.timeout)
		n.ctx, n.cancel = context.WithDeadline(context.Background(), n.until)
	}
	return n.ctx
}

// close ends what is still on its way.
func (n *line) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cancel != nil {
		n.cancel()
		n.until = time.Time{}
	}
}

// pending is how many settlements wait.
func (n *line) pending() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.ends)
}

func (n *line) nudge() {
	select {
	case n.kick <- struct{}{}:
	default:
	}
}

// fly is entered with the lock held and a flight taken; it leaves without
// both. own is the caller's op, which nobody has to wake.
func (n *line) fly(own *op) error {
	b := n.board(own)
	n.mu.Unlock()
	err := b.send()
	n.land(b, err)
	b.wake(own)
	n.batches.Put(b)
	return err
}

// board takes own and what waits into a batch.
func (n *line) board(own *op) *batch {
	b, _ := n.batches.Get().(*batch)
	if b == nil {
		b = newBatch(n)
	}
	b.ops = b.ops[:0]
	rides := maxBatch
	if own != nil {
		b.ops = append(b.ops, own)
		rides = maxRide
	}
	b.ops, n.waiting = move(b.ops, n.waiting, maxBatch-len(b.ops))
	b.ends, n.ends = move(b.ends[:0], n.ends, rides)
	return b
}

// move takes the first at most n of from to the end of to.
func move(to, from []*op, n int) (tail, rest []*op) {
	n = min(n, len(from))
	return append(to, from[:n]...), from[:copy(from, from[n:])]
}

// land hands the flight to the first who waits. When a batch failed, those who
// came meanwhile have waited as long as one may: they fail with it.
func (n *line) land(b *batch, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		n.ends = append(n.ends, b.ends...)
		b.ends = b.ends[:0]
		for _, o := range n.waiting {
			o.err = errLocal
		}
		b.ops = append(b.ops, n.waiting...)
		n.waiting = n.waiting[:0]
	}
	if len(n.waiting) > 0 {
		next := n.waiting[0]
		n.waiting = n.waiting[:copy(n.waiting, n.waiting[1:])]
		next.lead = true
		next.wake <- struct{}{}
		return
	}
	n.flying--
	if len(n.ends) > 0 && err == nil {
		n.nudge()
	}
}

// batch is one round trip.
type batch struct {
	line *line
	ends []*op
	ops  []*op
	cmds []redis.Cmder
	pipe redis.Pipeliner
	call func() (struct{}, error)
}

func newBatch(n *line) *batch {
	b := &batch{line: n, pipe: n.rdb.Pipeline()}
	b.call = b.roundTrip
	return b
}

// send runs the batch through the breaker. The error is that Redis could not
// be asked; every op then has errLocal.
func (b *batch) send() error {
	_, err := b.line.breaker.Execute(b.call)
	if err == nil {
		return nil
	}
	for _, o := range b.ops {
		if o.err != nil || o.cmd.Val() == nil {
			o.err = errLocal
		}
	}
	return err
}

func (b *batch) roundTrip() (struct{}, error) {
	sent := time.Now()
	ctx := b.line.inTime(sent)
	b.exec(ctx, false)
	b.exec(ctx, true)
	received := time.Now()
	err := b.read()
	b.line.called(received.Sub(sent), err)
	if err == nil && len(b.ops) > 0 && b.ops[0].err == nil {
		if r := reply(b.ops[0].cmd.Val()); r.whole(len(b.ops[0].cost)) {
			b.line.clock.learn(r.now(), sent, received)
		}
	}
	return struct{}{}, err
}

// exec sends all commands; the second time those that Redis did not know,
// this time with the script's text.
func (b *batch) exec(ctx context.Context, again bool) {
	b.cmds = b.cmds[:0]
	for _, list := range [2][]*op{b.ends, b.ops} {
		for _, o := range list {
			if again && (o.cmd.Err() == nil || !redis.HasErrorPrefix(o.cmd.Err(), "NOSCRIPT")) {
				continue
			}
			o.reset(again)
			b.cmds = append(b.cmds, o.cmd)
			if o.aside != nil && !again {
				b.cmds = append(b.cmds, o.aside)
			}
		}
	}
	switch len(b.cmds) {
	case 0:
	case 1:
		_ = b.line.rdb.Process(ctx, b.cmds[0]) // the command keeps its error
	default:
		_ = b.pipe.BatchProcess(ctx, b.cmds...)
		_, _ = b.pipe.Exec(ctx) // the commands keep their errors
	}
}

// read gives every op its outcome and returns the first error. Whatever it is,
// a broken connection or Redis saying that it is out of memory, loading or
// read-only, the answer to it is the same: decide from the local share.
func (b *batch) read() error {
	var first error
	for _, list := range [2][]*op{b.ends, b.ops} {
		for _, o := range list {
			o.err = o.cmd.Err()
			if o.err == nil && o.aside != nil {
				o.err = o.aside.Err()
			}
			if o.err != nil && first == nil {
				first = o.err
			}
		}
	}
	return first
}

// wake gives settlements back and wakes everybody in the batch but own.
func (b *batch) wake(own *op) {
	for _, o := range b.ends {
		b.line.ended(o)
	}
	for _, o := range b.ops {
		if o != own {
			o.wake <- struct{}{}
		}
	}
}
