package schedule

import (
	"math/rand/v2"
	"time"
)

// The purposes of chance.
const (
	forArrivals uint64 = iota + 1
	forSessions
	forApps
	forGateways
	forPolicies
	forReplicas
)

// session is one chat. What is said in it depends on its number alone.
type session struct {
	chat    *chat
	random  *rand.Rand
	app     uint64
	id      uint64
	system  int // tokens at the beginning that the application's sessions share
	history int // tokens said so far, system prompt included
	left    int // turns to come
	caller  int
}

// traffic makes the requests of a workload.
type traffic struct {
	w        *world
	load     float64 // requests a second, without the flood
	sessions uint64
}

// start schedules the first arrivals. Chats are in full swing from the
// beginning: as many are under way as there will be on average. Since turns are
// geometric and pauses exponential, what is left of a chat under way is
// distributed as a whole one.
func (t *traffic) start() {
	load := t.w.Workload
	if load.chat == nil {
		callers := max(load.callers, 1)
		for c := range callers {
			rate := t.load / float64(callers)
			if c == 0 && load.flood > 0 {
				rate *= load.flood
			}
			t.single(c, rate)
		}
		return
	}
	began := t.load / load.chat.turns // sessions a second
	under := int(began * load.chat.turns * load.chat.think.Seconds())
	for range under {
		s := t.session()
		for range geometric(s.random, load.chat.turns) - 1 {
			s.history += load.chat.user(s.random) + load.output(s.random)
		}
		t.w.at(pause(s.random, load.chat.think), func() { t.turn(s) })
	}
	arrivals := stream(t.w.Seed, forArrivals, 0)
	t.w.poisson(arrivals, began, func() { t.turn(t.session()) })
}

// single sends requests that know nothing of each other.
func (t *traffic) single(caller int, rate float64) {
	random := stream(t.w.Seed, forArrivals, uint64(caller))
	n := uint64(0)
	t.w.poisson(random, rate, func() {
		n++
		t.w.arrive(&request{
			caller: caller, stem: stem{own: mix(t.w.Seed<<20 ^ uint64(caller)<<48 ^ n)},
			prompt: t.w.Workload.prompt(random), output: t.w.Workload.output(random),
		})
	})
}

func (t *traffic) session() *session {
	t.sessions++
	c := t.w.Workload.chat
	random := stream(t.w.Seed, forSessions, t.sessions)
	app := uint64(ranked(random, c.apps))
	system := c.system(stream(t.w.Seed, forApps, app))
	return &session{
		chat: c, random: random, app: mix(t.w.Seed<<20 ^ app), id: mix(t.w.Seed<<20 ^ 1<<60 ^ t.sessions),
		system: system, history: system, left: geometric(random, c.turns), caller: int(app),
	}
}

// turn sends the next request of a chat, and the one after it when its answer
// has been read and thought about.
func (t *traffic) turn(s *session) {
	s.left--
	s.history += s.chat.user(s.random)
	r := &request{
		caller: s.caller, stem: stem{shared: s.app, sharedTokens: s.system, own: s.id},
		prompt: min(s.history, longest), output: t.w.Workload.output(s.random),
	}
	wait := pause(s.random, s.chat.think)
	r.then = func() {
		if s.history += r.output; s.left > 0 && s.history < longest {
			t.w.at(t.w.now+wait, func() { t.turn(s) })
		}
	}
	t.w.arrive(r)
}

// longest is the prompt at which a chat ends: the model's context.
const longest = 120000

// poisson calls f at random moments, so many a second on average.
func (w *world) poisson(random *rand.Rand, rate float64, f func()) {
	mean := time.Duration(float64(time.Second) / rate)
	w.at(w.now+pause(random, mean), func() {
		f()
		w.poisson(random, rate, f)
	})
}

// stem says what a prompt begins with: tokens that others share, then tokens
// that only this chat has.
type stem struct {
	shared, own  uint64
	sharedTokens int
}

// hashes names the full blocks of the first tokens. As the hashes of real blocks
// do, each covers all that comes before it.
func (s stem) hashes(tokens, size int) []uint64 {
	list := make([]uint64, tokens/size)
	for k := range list {
		content := s.own
		if (k+1)*size <= s.sharedTokens {
			content = s.shared
		}
		list[k] = mix(content + uint64(k)*0x9e3779b97f4a7c15)
	}
	return list
}
