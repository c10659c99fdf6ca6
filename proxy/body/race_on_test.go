//go:build race

package body

// raceEnabled: the race detector allocates, so that allocations say nothing.
const raceEnabled = true
