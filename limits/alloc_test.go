//go:build !race

package limits

import (
	"testing"
	"time"

	"mete/auth/redistest"
)

func TestAnAdmissionAllocatesLittle(t *testing.T) {
	r := newRig(t, redistest.Start(t).Client(), plan(requests(1e9, time.Minute), tokens(1e12, time.Minute), concurrent(1e6)))
	key := r.key("ann")
	a := ask(key, 10)
	n := 0
	admit := func() {
		n++
		a.ID[0], a.ID[1] = byte(n), byte(n>>8)
		g, err := r.Reserve(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		g.Settle(Usage{Prompt: 1})
	}
	admit()
	// The grant and the reply are ours; the rest is the client's, per round trip.
	if got := testing.AllocsPerRun(200, admit); got > 12 {
		t.Errorf("%v allocations for a request and its end, alone", got)
	}
}
