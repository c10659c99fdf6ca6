// Package schedule measures what a choice of replica is worth, in simulated
// time.
//
// A run is a pure function of its Setup: simulated vLLM engines (bench/sim),
// one or several gateways in front of them, and callers. What is ours runs as it
// is: each gateway holds a real balancer.Pool that is driven through its clock,
// its source of chance and its leases. What it is compared with are the
// mechanisms that others use: round robin, chance, the least in flight, and a
// consistent hash of the prefix with bounded load.
//
// It owns the workloads and where their figures come from, the policies, the
// search for the load at which a policy saturates, and the comparison with its
// aims. docs/scheduling.md writes the model down.
//
// It promises that the same Setup gives the same Metrics to the last bit, and
// that every policy meets the same requests: what a caller asks, and how long it
// thinks, depends on the seed and on nothing that a policy does.
package schedule
