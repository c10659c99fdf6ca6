package balancer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	herdGateways = 4
	herdReplicas = 8
	herdClients  = 30 // of each gateway, each with one request in flight
)

// herd is several gateways that share replicas. Each learns of what is there by
// scraping alone, and what it learns is lag old without its knowing.
type herd struct {
	*world
	pools []*Pool
	there []int         // requests on each replica, of all gateways
	past  []herdMoment  // what was there, to be scraped later
	seen  [][]int       // by gateway: what the last scrape said
	turn  []int         // by gateway: the next in the round
	mean  time.Duration // of a request
	sum   float64       // of max/mean over the samples
	n     int
}

type herdMoment struct {
	at    time.Duration
	there []int
}

// choose names the replica that gateway g picks, and takes it.
type herdPolicy func(h *herd, g int) (replica int, done func())

func roundRobin(h *herd, g int) (int, func()) {
	h.turn[g]++
	return h.turn[g] % herdReplicas, func() {}
}

func shortestQueue(h *herd, g int) (int, func()) {
	best, equals := 0, 0
	for i, n := range h.seen[g] {
		switch {
		case n < h.seen[g][best]:
			best, equals = i, 1
		case n == h.seen[g][best]:
			if equals++; h.rand.IntN(equals) == 0 {
				best = i
			}
		}
	}
	return best, func() {}
}

func mete(h *herd, g int) (int, func()) {
	l, err := h.pools[g].Acquire(context.Background(), Need{Tokens: 200})
	if err != nil {
		panic(err)
	}
	return slices.Index(h.pools[g].Replicas(), l.Replica()), func() { l.FirstByte(); l.Done(Success) }
}

func runHerd(t *testing.T, choose herdPolicy, lag, mean time.Duration) float64 {
	h := &herd{
		world: newWorld(11), mean: mean,
		there: make([]int, herdReplicas), turn: make([]int, herdGateways),
	}
	for g := range herdGateways {
		h.pools = append(h.pools, h.pool(t, herdReplicas))
		h.seen = append(h.seen, make([]int, herdReplicas))
		h.turn[g] = g * 3
		for i := range herdReplicas {
			h.every(time.Second, func() { h.scrape(g, i, lag) })
		}
		for range herdClients {
			h.after(h.exponential(mean), func() { h.request(choose, g) })
		}
	}
	h.every(50*time.Millisecond, h.remember)
	h.run(30 * time.Second)
	h.sum, h.n = 0, 0
	h.run(180 * time.Second)
	return h.sum / float64(h.n)
}

func (h *herd) request(choose herdPolicy, g int) {
	i, done := choose(h, g)
	h.there[i]++
	h.after(h.exponential(h.mean), func() {
		h.there[i]--
		done()
		h.request(choose, g)
	})
}

// remember samples the evenness, and keeps what is there for later scrapes.
func (h *herd) remember() {
	h.past = append(h.past, herdMoment{h.now, slices.Clone(h.there)})
	if len(h.past) > 200 {
		h.past = h.past[100:]
	}
	total := 0
	for _, n := range h.there {
		total += n
	}
	if total > 0 {
		h.sum += float64(slices.Max(h.there)) * herdReplicas / float64(total)
		h.n++
	}
}

func (h *herd) scrape(g, i int, lag time.Duration) {
	n := h.there[i]
	if lag > 0 {
		for _, m := range slices.Backward(h.past) {
			if n = m.there[i]; m.at <= h.now-lag {
				break
			}
		}
	}
	h.seen[g][i] = n
	r := h.pools[g].Replicas()[i]
	load := Load{Running: float64(min(n, 16)), Waiting: float64(max(n-16, 0)), KV: float64(n) / 40}
	r.signal.told(load, r.InFlight(), h.pools[g].clock(), "metrics")
	h.pools[g].weighShare()
}

// TestGatewaysThatShareAPoolDoNotHerd wants the busiest replica to have at most
// 1.3 times the mean, whatever the age of what is scraped.
func TestGatewaysThatShareAPoolDoNotHerd(t *testing.T) {
	synctest.Test(t, testHerd)
}

func testHerd(t *testing.T) {
	var table strings.Builder
	for _, mean := range []time.Duration{time.Second, 4 * time.Second, 20 * time.Second} {
		for _, lag := range []time.Duration{0, time.Second, 5 * time.Second} {
			rr := runHerd(t, roundRobin, lag, mean)
			sq := runHerd(t, shortestQueue, lag, mean)
			us := runHerd(t, mete, lag, mean)
			fmt.Fprintf(&table, "%8s %8s %14.2f %14.2f %14.2f\n", mean, lag, rr, sq, us)
			if us > 1.3 {
				t.Errorf("requests of %s, scrapes %s old: max/mean %.2f, want at most 1.3", mean, lag, us)
			}
		}
	}
	t.Logf("max/mean in flight, %d gateways, %d replicas, %d in flight each\n%8s %8s %14s %14s %14s\n%s",
		herdGateways, herdReplicas, herdClients, "requests", "lag", "round robin", "shortest queue", "mete", table.String())
}

// TestAForeignLoadIsAvoided fills two of the replicas from somewhere else: what
// is scraped must keep our own requests away from them.
func TestAForeignLoadIsAvoided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const foreign = 30
		h := &herd{
			world: newWorld(3), mean: 4 * time.Second, there: make([]int, herdReplicas),
			turn: make([]int, 1), seen: [][]int{make([]int, herdReplicas)},
		}
		h.there[0], h.there[1] = foreign, foreign
		h.pools = []*Pool{h.pool(t, herdReplicas)}
		for i := range herdReplicas {
			h.every(time.Second, func() { h.scrape(0, i, 0) })
		}
		for range herdClients {
			h.after(h.exponential(h.mean), func() { h.request(mete, 0) })
		}
		ours, samples := 0, 0
		h.every(50*time.Millisecond, func() {
			ours += h.there[0] + h.there[1] - 2*foreign
			samples++
		})
		h.run(120 * time.Second)
		// An even spread would have 7.5 of our 30 there.
		if mean := float64(ours) / float64(samples); mean > 2 {
			t.Errorf("%.1f of our %d requests are where others have %d each", mean, herdClients, foreign)
		}
	})
}
