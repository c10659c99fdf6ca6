// Package balancer decides which replica answers a request.
//
// It owns the pools, what is known of their replicas, the choice among them,
// the breakers, the retry budget and the leases. It never sends the request:
// the caller acquires a Lease, talks to Lease.Replica, and reports how that
// ended with Lease.Done. It sends requests of its own only to learn how a
// replica is: /health, /metrics and /v1/models.
//
// # What is known of a replica
//
// A source (the configuration, DNS, Consul) says where replicas are, and gives
// reasons to hold some out. A watcher per replica checks its health, reads its
// load and learns what it serves. The outcome of every lease tells more. All of
// it ends in a state per replica, and in a snapshot of who may be chosen;
// Pool.Snapshot and Pool.Explain show both, with reasons.
//
// # The choice
//
// The score of a replica is the work there for its share of the pool: our own
// requests, which are counted and never stale; prompt tokens that are not yet
// answered; and what others have there, as far as it is known. Of a few
// replicas the least wins, of many the better of two drawn at random.
//
// What others have there is scraped, so it is old, and equally old for all
// gateways. If each of them answered to it fully, they would overshoot together
// and run from replica to replica. Each therefore lets it count for its own
// share of the traffic: then all of them together correct an imbalance once.
//
// # The queue
//
// When every replica that may take a request is full, the request waits in the
// pool: see Turn, and order for whose turn it is. Request is the form that calls
// back; Acquire blocks. A queue begins only where something is full, so nothing
// of it costs a request that finds a place.
//
// # Promises
//
//   - A choice takes no lock and allocates nothing, unless a breaker is not
//     closed.
//   - A lease gives back exactly what it took, however often and from however
//     many goroutines it is ended.
//   - A replica that stays in a pool keeps its counters. One that leaves gets no
//     new leases, while those it has end in peace.
//   - A source that fails, falls silent or says nothing empties no pool.
//   - A number that a replica did not say is shown as unknown, never guessed.
package balancer
