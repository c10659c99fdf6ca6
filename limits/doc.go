// Package limits owns what a caller may use: requests, tokens and slots, exact
// over all gateways, decided in one atomic call to Redis per request.
//
// # Promises
//
//   - In any true sliding window, over all gateways together, no more requests
//     are let in than a limit says, and no more tokens are charged. What an
//     answer used beyond its reservation is charged to later requests.
//   - Key state, every window and the slot are decided together: a refused
//     request changes nothing.
//   - A key revoked in the store is refused on its next request everywhere.
//   - Settlement happens once, off the request path, and no admission waits
//     for it. A slot outlives a dead gateway by no more than Options.Lease.
//   - While Redis cannot be asked every gateway goes on with its share of every
//     limit, for keys that it saw within Options.KnownFor. What was let in that
//     way is charged in Redis before Redis decides again.
//   - No failure of Redis or of ours is an error that speaks of the key.
//
// # Who shares what
//
// Windows and slots belong to an owner under a plan: all keys of an owner with
// one plan share them, and an owner who has keys under two plans has both
// plans' limits, each counted apart. A window is known by its kind and length,
// so that a reload that changes only the number goes on counting.
//
// # Layout in Redis
//
// Beside what package auth documents, all in the hash slot of the owner where
// an owner is named, so that Redis Cluster can run the scripts:
//
//	<svc>:{<owner>}:windows:<plan>    hash, see lua/window.lua
//	<svc>:{<owner>}:live:<plan>       sorted set: id of a live request, end of its lease
//	<svc>:{<owner>}:usage:<hour>      hash: "<key id> <model> <count>", 35 days
//	<svc>:{<owner>}:usage-from:<gw>   number of the gateway's last addition, one day
//	<svc>:usage:<hour>                set of the owners with usage in that hour, 35 days
//	<svc>:gateways                    sorted set: gateway, until when it is believed
//
// Hours are counted from 1970; other times are microseconds of Redis's clock.
//
// # How a request goes
//
// identify (callers.go) finds the record of a key, admit (reserve.go) runs
// lua/admit.lua through the line (line.go), in which concurrent requests share
// round trips, or decides from this gateway's share (local.go). A Grant
// (grant.go) ends by lua/settle.lua. The keeper (keeper.go) has what has its
// own time: signs of life, leases, usage, and coming back.
//
// # What it does not promise
//
//   - A debt larger than a whole window is forgiven with that window.
//   - A command that Redis carried out although its answer came too late is
//     charged twice, once from the local share: late, and only to the safe side.
//   - A gateway that is killed takes along the usage of its last
//     Options.Flush, and settlements of the last milliseconds: what those
//     requests had reserved stays charged.
//   - A gateway that starts while Redis is away counts itself as the only one.
package limits
