//go:build race

package proxy

// raceEnabled: the race detector allocates, so that allocations say nothing.
const raceEnabled = true
