// Package balancer decides which replica answers a request.
//
// It owns the pools, the choice of a replica and the leases on replicas. It
// never sends the request: the caller acquires a Lease, talks to
// Lease.Replica, and reports how that ended with Lease.Done.
//
// It promises that
//   - a choice takes no lock and allocates nothing;
//   - the load of a replica counts work, not only requests: a long prompt that
//     has not been answered yet weighs more than a short one;
//   - a lease gives back exactly what it took, however often and from however
//     many goroutines it is ended;
//   - a replica that stays in a pool keeps its counters, and one that leaves
//     gets no new leases while those it has end in peace.
package balancer
