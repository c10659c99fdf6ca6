package limits

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// ID is the gateway's own id of one request. It must never come from a caller:
// a request that repeats an id is let in without being charged.
type ID [16]byte

// MarshalBinary gives the id to a Redis command without a copy.
func (id *ID) MarshalBinary() ([]byte, error) { return id[:], nil }

// op is one run of a script. Admissions and settlements reuse theirs: the
// command is built once, around pointers to the fields that change.
type op struct {
	cmd    *redis.IntSliceCmd
	args   []any // of cmd, the same array
	script script

	id       ID
	deadline int64
	mode     int64
	cost     []int64 // per window: what is charged, or by how much it differs
	bucket   []int64 // per window, for settlements

	aside   *redis.SliceCmd // a read that goes along, if not nil
	policy  *policy         // of a settlement
	account *account        // of a settlement
	err     error
	wake    chan struct{} // whoever waits is woken once per use
	lead    bool          // woken to run the next batch
}

// Where the fixed part of an op's arguments ends, and what is set per use.
const (
	argScript = 1
	argKeys   = 3
)

func newOp(s script, args []any) *op {
	args = append([]any{"evalsha", s.sha}, args...)
	return &op{
		cmd: redis.NewIntSliceCmd(context.Background(), args...), args: args, script: s,
		wake: make(chan struct{}, 1),
	}
}

// newAdmitOp builds the command for admit.lua; the order is that of its KEYS
// and ARGV. Script, keys and lease are set by the limiter.
func newAdmitOp(p *policy) *op {
	o := &op{wake: make(chan struct{}, 1), cost: make([]int64, len(p.shapes))}
	o.args = []any{"evalsha", nil, 3, nil, nil, nil, &o.id, p.name, &o.deadline, nil, &o.mode, p.concurrent, p.ttl}
	for i := range p.shapes {
		s := &p.shapes[i]
		o.args = append(o.args, s.name, s.width, s.limit, &o.cost[i])
	}
	o.cmd = redis.NewIntSliceCmd(context.Background(), o.args...)
	return o
}

const argLease = 9

// newSettleOp builds the command for settle.lua.
func newSettleOp(p *policy) *op {
	n := len(p.shapes)
	o := &op{wake: make(chan struct{}, 1), cost: make([]int64, n), bucket: make([]int64, n)}
	o.args = []any{"evalsha", nil, 2, nil, nil, &o.id, p.ttl}
	for i := range p.shapes {
		s := &p.shapes[i]
		o.args = append(o.args, s.name, s.width, &o.bucket[i], &o.cost[i])
	}
	o.cmd = redis.NewIntSliceCmd(context.Background(), o.args...)
	return o
}

// reset makes an op ready to be run, by the script's hash or by its text.
func (o *op) reset(bySource bool) {
	o.args[0], o.args[argScript] = "evalsha", o.script.sha
	if bySource {
		o.args[0], o.args[argScript] = "eval", o.script.source
	}
	o.cmd.SetErr(nil)
	o.cmd.SetVal(nil)
	o.err = nil
}

// reply is what admit.lua answered; see there.
type reply []int64

func (r reply) verdict() int64 { return r[0] }
func (r reply) now() int64     { return r[1] }
func (r reply) live() int64    { return r[2] }

// refusal is which window refused (-1: concurrency), and after how many
// microseconds all windows let the request in, and those for requests alone.
func (r reply) refusal() (index int, all, requests int64) { return int(r[3]), r[4], r[5] }

func (r reply) bucket(i int) int64 { return r[6+2*i] }
func (r reply) sum(i int) int64    { return r[7+2*i] }

// whole reports whether the reply has everything that its verdict promises.
func (r reply) whole(windows int) bool {
	if len(r) < 2 {
		return false
	}
	return r[0] > replyExceeded || len(r) == 6+2*windows
}
