package schedule

import (
	"fmt"
	"slices"
	"strings"
)

// policy is a way to choose.
type policy struct {
	name, title string
	choose      chooser // nil for ours
	ours        bool
	queued      bool // what exceeds the replicas' good range waits in the gateway
}

// The names of the policies.
const (
	RoundRobin = "round-robin"
	Random     = "random"
	Least      = "least-in-flight"
	PrefixOnly = "prefix-hash"
	Direct     = "mete-direct"
	Mete       = "mete"
)

var policies = []policy{
	{name: RoundRobin, title: "round robin", choose: roundRobin},
	{name: Random, title: "random", choose: atRandom},
	{name: Least, title: "least in flight", choose: leastInFlight},
	{name: PrefixOnly, title: "prefix hash, load bounded", choose: prefixHash},
	{name: Direct, title: "mete, no queue", ours: true},
	{name: Mete, title: "mete", ours: true, queued: true},
}

// Policies are the names of all policies, ours last.
func Policies() (names []string) {
	for _, p := range policies {
		names = append(names, p.name)
	}
	return names
}

func policyNamed(name string) (policy, error) {
	i := slices.IndexFunc(policies, func(p policy) bool { return p.name == name })
	if i < 0 {
		return policy{}, fmt.Errorf("unknown policy %q, want one of %s", name, strings.Join(Policies(), ", "))
	}
	return policies[i], nil
}

func roundRobin(g *gateway, _ *request) *node {
	g.turn++
	return g.replicas[g.turn%len(g.replicas)]
}

func atRandom(g *gateway, _ *request) *node { return g.replicas[g.random.IntN(len(g.replicas))] }

// leastInFlight counts the gateway's own requests, which are never stale, and
// draws among equals.
func leastInFlight(g *gateway, _ *request) (best *node) {
	equals := 0
	for _, n := range g.replicas {
		switch {
		case best == nil || g.own[n] < g.own[best]:
			best, equals = n, 1
		case g.own[n] == g.own[best]:
			if equals++; g.random.IntN(equals) == 0 {
				best = n
			}
		}
	}
	return best
}

// loadFactor bounds a replica's load to so many times the mean, as KubeAI does
// by default.
const loadFactor = 1.25

// prefixHash is consistent hashing with bounded loads (Mirrokni, Thorup and
// Zadimoghaddam, 2016) as KubeAI uses it for prompts: the first replica on the
// ring that has room. As there, the key is the first thing that the user says,
// so that a chat stays together and an application's chats are spread.
func prefixHash(g *gateway, r *request) *node {
	most := loadFactor * float64(g.total+1) / float64(len(g.replicas))
	return g.ring.walk(r.own, func(n *node) bool { return g.total == 0 || float64(g.own[n]+1) <= most })
}
