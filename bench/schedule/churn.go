package schedule

import (
	"fmt"

	"mete/bench/sim"
)

// addNode adds an idle replica with an empty cache.
func (w *world) addNode(speed float64) {
	p := w.Profile
	p.Speed = speed
	p.Seed = mix(w.Seed ^ forReplicas<<40 ^ uint64(len(w.nodes)))
	n := &node{url: fmt.Sprintf("http://10.0.%d.%d:8000", len(w.nodes)/250, len(w.nodes)%250+1), engine: sim.NewEngine(p), next: never, serves: true}
	w.nodes = append(w.nodes, n)
	w.announce()
}

// comeAndGo adds a replica or takes away the one that it has added, which
// finishes what it has. Every one that comes is new and cold.
func (w *world) comeAndGo() {
	if last := w.nodes[len(w.nodes)-1]; len(w.nodes) > w.Replicas && last.serves {
		last.serves = false
		w.announce()
	} else {
		w.addNode(1)
	}
	w.at(w.now+w.Workload.churn, w.comeAndGo)
}

// serving are the replicas that the gateways are told of.
func (w *world) serving() (list []*node) {
	for _, n := range w.nodes {
		if n.serves {
			list = append(list, n)
		}
	}
	return list
}

func (w *world) announce() {
	for _, g := range w.gateways {
		g.know(w.serving())
	}
}
