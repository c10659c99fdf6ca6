package balancer

import (
	"fmt"
	"testing"
	"time"
	"unsafe"
)

// prompt is n blocks, of which the first shared are the same for all names.
func prompt(name string, shared, n int) []uint64 {
	blocks := make([]uint64, n)
	for i := range blocks {
		blocks[i] = uint64(i+1) * 0x9e3779b97f4a7c15
		if i >= shared {
			for _, c := range []byte(name) {
				blocks[i] = (blocks[i] ^ uint64(c)) * 0xd6e8feb86659fd93
			}
		}
	}
	return blocks
}

func needOf(blocks []uint64) Need {
	return Need{Tokens: int64(len(blocks)) * BlockTokens, Blocks: blocks}
}

func TestAPromptGoesWhereItsBeginningIs(t *testing.T) {
	for _, n := range []int{4, 40} {
		now := int64(1)
		p := newPool(t, n, Options{Clock: func() int64 { return now }})
		for chat := range 10 {
			first := mustAcquire(t, p, needOf(prompt(fmt.Sprint(chat), 0, 20)))
			now += int64(50 * time.Millisecond)
			first.FirstToken()
			first.Done(Success)
			for turn := range 5 {
				next := mustAcquire(t, p, needOf(prompt(fmt.Sprint(chat), 0, 25+5*turn)))
				if next.Replica() != first.Replica() {
					t.Errorf("%d replicas: turn %d of chat %d went elsewhere", n, turn, chat)
				}
				next.Done(Success)
			}
		}
	}
}

func TestABusyReplicaDoesNotKeepItsPrompts(t *testing.T) {
	p := newPool(t, 2, Options{})
	first := mustAcquire(t, p, needOf(prompt("a", 0, 20)))
	first.Done(Success)
	mustAcquire(t, p, Need{Tokens: 10, Avoid: [2]*Replica{first.Replica()}}) // the other has little to do
	first.Replica().take(0, 20_000)                                          // the first has very much
	if l := mustAcquire(t, p, needOf(prompt("a", 0, 20))); l.Replica() == first.Replica() {
		t.Error("it waits for a long prompt rather than compute a short one again")
	}
}

func TestOnlyWhatIsNotHeldWaits(t *testing.T) {
	p := newPool(t, 1, Options{})
	blocks := prompt("a", 0, 20)
	l := mustAcquire(t, p, needOf(blocks))
	if got := l.Replica().Prefill(); got != 20*BlockTokens {
		t.Errorf("%d tokens wait, want all", got)
	}
	l.Done(Success)
	l = mustAcquire(t, p, needOf(append(blocks, 1)))
	if got := l.Replica().Prefill(); got != BlockTokens {
		t.Errorf("%d tokens wait, want those of one block", got)
	}
	l.Done(Success)
}

func TestWhatACacheCannotHoldIsForgotten(t *testing.T) {
	p := newPool(t, 1, Options{})
	r := p.Replicas()[0]
	p.known.note(prompt("old", 0, 20), r)
	r.computed.Add(keptBlocks + 1)
	q := p.question(&Need{Blocks: prompt("old", 0, 20)})
	q.look(&p.known, p.members.Load())
	if n := q.found.of(r); n != 0 {
		t.Errorf("%d blocks are believed to be there", n)
	}
}

func TestThePictureIsBounded(t *testing.T) {
	p := newPool(t, 2, Options{})
	for i := range 30_000 {
		p.known.note(prompt(fmt.Sprint(i), 0, 10), p.Replicas()[i%2])
	}
	if n := len(p.known.sets) * int(unsafe.Sizeof(set{})); n != 10<<20 {
		t.Errorf("%d bytes, and the comment says 10 MiB", n)
	}
	q := p.question(&Need{Blocks: prompt("29999", 0, 10)})
	q.look(&p.known, p.members.Load())
	if q.found.of(p.Replicas()[1]) != 10 {
		t.Error("the newest prompt is not there")
	}
}

// TestGatewaysAgreeOnAHome: with others about, a prompt that this gateway does
// not know goes where another would have sent it.
func TestGatewaysAgreeOnAHome(t *testing.T) {
	agree := 0
	for chat := range 50 {
		blocks := prompt(fmt.Sprint(chat), 10, 30)
		var chosen [2]string
		for g := range chosen {
			p := newPool(t, 8, Options{})
			for _, r := range p.Replicas() {
				p.Observe(r, Load{Running: 8, Waiting: 0, KV: 0.1})
			}
			p.shareAt.Store(0)
			p.weighShare()
			p.known.note(blocks[:10], p.Replicas()[g]) // each knows the system prompt from elsewhere
			l := mustAcquire(t, p, needOf(blocks))
			chosen[g] = l.Replica().ID
			l.Done(Success)
		}
		if chosen[0] == chosen[1] {
			agree++
		}
	}
	if agree < 40 {
		t.Errorf("two gateways agreed on %d of 50", agree)
	}
}

func TestAHomeOutlivesOtherReplicas(t *testing.T) {
	few, many := newPool(t, 8, Options{}), newPool(t, 9, Options{})
	moved := 0
	homeIn := func(p *Pool, block uint64) (id string) {
		highest := uint64(0)
		for _, r := range p.Replicas() {
			if h := r.home(block); h >= highest {
				id, highest = r.ID, h
			}
		}
		return id
	}
	for i := range 900 {
		block := uint64(i) * 0x9e3779b97f4a7c15
		if a, b := homeIn(few, block), homeIn(many, block); a != b {
			if b != many.Replicas()[8].ID {
				t.Fatalf("a home moved from %s to %s, which is not the new one", a, b)
			}
			moved++
		}
	}
	if moved < 50 || moved > 160 {
		t.Errorf("%d of 900 moved to the new one, want about 100", moved)
	}
}

// TestASlowReplicaIsFoundOut learns from nothing but the answers.
func TestASlowReplicaIsFoundOut(t *testing.T) {
	now := int64(1)
	p := newPool(t, 2, Options{Clock: func() int64 { return now }})
	slow, took := p.Replicas()[0], map[*Replica]int{}
	for range 400 {
		l := mustAcquire(t, p, Need{Tokens: 1000})
		took[l.Replica()]++
		ms := int64(25)
		if l.Replica() == slow {
			ms *= 3
		}
		now += ms * int64(time.Millisecond)
		l.FirstToken()
		l.Done(Success)
	}
	if took[slow] > 100 {
		t.Errorf("the slow one got %d of 400", took[slow])
	}
	if fast, s := p.Replicas()[1].rate.get(0), slow.rate.get(0); fast < 2*s {
		t.Errorf("rates are %.1f and %.1f tokens a millisecond", fast, s)
	}
}

// TestAPictureMayKnowReplicasThatASnapshotDoesNot looks with a snapshot from
// before a replica came which meanwhile has been sent the prompt.
func TestAPictureMayKnowReplicasThatASnapshotDoesNot(t *testing.T) {
	p := newPool(t, 2, Options{})
	before := p.members.Load()
	if err := p.Update(Static(urls(3))); err != nil {
		t.Fatal(err)
	}
	blocks := prompt("a", 0, 20)
	p.known.note(blocks, p.Replicas()[2])
	q := p.question(&Need{Blocks: blocks})
	q.look(&p.known, before)
	if q.found.n != 0 {
		t.Errorf("%d holders are found, want none that the snapshot knows", q.found.n)
	}
}

func BenchmarkChoice(b *testing.B) {
	for _, c := range []struct{ replicas, blocks int }{{8, 0}, {64, 0}, {64, 32}, {64, 128}, {1000, 32}} {
		b.Run(fmt.Sprintf("replicas=%d/blocks=%d", c.replicas, c.blocks), func(b *testing.B) {
			p, err := NewPool("general", Static(urls(c.replicas)), Options{})
			if err != nil {
				b.Fatal(err)
			}
			var prompts [64]Need
			for i := range prompts {
				prompts[i] = needOf(prompt(fmt.Sprint(i), c.blocks/2, c.blocks))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				var l Lease
				if !p.tryAcquire(&prompts[i%64], &l) {
					b.Fatal("no replica")
				}
				l.FirstToken()
				l.Done(Success)
			}
		})
	}
}
