// Package consul finds replicas in Consul and makes the gateway itself to be
// found there. It is the only importer of Consul's client.
//
// It promises that
//   - a change in Consul is published within a second while Consul is well, and
//     within fifteen seconds after it is well again;
//   - whatever Consul says or fails to say, the last good list stays in use: a
//     balancer.Keeper stands between Consul and the pool;
//   - everything ends when its context ends.
package consul
