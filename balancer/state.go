package balancer

import (
	"slices"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"
)

// The reasons to hold a replica out, as bits: several may be true at once.
const (
	holdCritical    uint32 = 1 << iota // the source's checks fail
	holdCheck                          // our checks fail
	holdRefused                        // nobody listens there
	holdModel                          // it does not serve what the pool promises
	holdMaintenance                    // taken out by hand
	holdSuspect                        // vanished from its source with many others

	holds    = 6
	byChecks = holdCritical | holdCheck // forgiven in a panic
)

var sourceHolds = map[uint32]Held{
	holdCritical: HeldCritical, holdMaintenance: HeldMaintenance, holdSuspect: HeldSuspect,
}

// blink is how short a replica may be held out without losing what makes it
// fast, so that it needs no slow start.
const blink = 3 * time.Second

// State is what a replica is to the choice, in one word.
type State string

// The states of a replica. The first that holds is the one told.
const (
	StateGone        State = "gone"        // no longer in the pool
	StateMaintenance State = "maintenance" // held out by hand
	StateWrongModel  State = "wrong_model" // does not serve what the pool promises
	StateRefused     State = "refused"     // nobody listens there
	StateUnhealthy   State = "unhealthy"   // a check fails, ours or the source's
	StateSuspect     State = "suspect"     // vanished from its source with many others
	StateOpen        State = "open"        // its breaker is open or half-open
	StateWarming     State = "warming"     // in its slow start
	StateReady       State = "ready"
)

// set notes or, with an empty why, drops a reason (or several) to hold the replica out, and
// reports whether its holds changed.
func (r *Replica) set(bit uint32, why string) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.whys {
		if bit&(1<<i) != 0 {
			r.whys[i] = why
		}
	}
	before := r.holds.Load()
	after := before &^ bit
	if why != "" {
		after |= bit
	}
	if after == before {
		return false
	}
	now := r.clock()
	if before == 0 {
		r.since = now
	} else if after == 0 && before != holdSuspect && now-r.since > int64(blink) {
		r.warming.Store(now)
	}
	r.holds.Store(after)
	return true
}

// hold is set on a member of the pool, with all that follows from it.
func (p *Pool) hold(r *Replica, bit uint32, why string) {
	if r.set(bit, why) {
		p.rearrange()
	}
}

func (p *Pool) rearrange() {
	defer p.serve() // once the lock is free
	p.updating.Lock()
	defer p.updating.Unlock()
	p.arrange(p.members.Load().all)
}

// State is the replica's state and why it is so.
func (r *Replica) State() (State, string) {
	h := r.holds.Load()
	switch {
	case h&holdMaintenance != 0:
		return StateMaintenance, r.why()
	case h&holdModel != 0:
		return StateWrongModel, r.why()
	case h&holdRefused != 0:
		return StateRefused, r.why()
	case h&byChecks != 0:
		return StateUnhealthy, r.why()
	case h&holdSuspect != 0:
		return StateSuspect, r.why()
	case r.breaker.now() != gobreaker.StateClosed:
		return StateOpen, "breaker " + r.breaker.now().String()
	}
	if since := r.warming.Load(); since != 0 && r.clock()-since < int64(slowStart) {
		return StateWarming, "slow start"
	}
	return StateReady, ""
}

// why joins all reasons to hold the replica out.
func (r *Replica) why() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	whys := slices.DeleteFunc(slices.Clone(r.whys[:]), func(s string) bool { return s == "" })
	return strings.Join(whys, "; ")
}

// tell passes the replica's state on if it is not the one told last. It asks
// nothing of gobreaker, whose lock may be held.
func (p *Pool) tell(r *Replica) {
	if p.options.Load().OnChange == nil {
		return
	}
	state, why := r.State()
	r.mu.Lock()
	changed := r.told != state
	r.told = state
	r.mu.Unlock()
	if changed {
		p.options.Load().OnChange(Change{p.name, r, state, why})
	}
}
