// Package devicecode owns the device authorization grant: how a program without
// a browser gets a key that a person approves in one (RFC 8628).
//
// Machine is the states of one code and nothing else: time comes in as an
// argument. Service puts a store on Redis around it, caps on guessing and on
// floods, the two routes of the API listener, and what the page needs on which
// a person decides.
//
// # Promises
//
//   - One approved code gives one key, however many polls on however many
//     gateways ask at once, and whatever breaks on the way.
//   - A key exists from the poll that redeems the code, never before, and its
//     plaintext in that answer alone.
//   - No code is of use after its life, after a denial, or twice.
//   - Whoever can write the store, but has no pepper, can approve nothing: a
//     record that we did not write is an unknown one.
//   - A page learns nothing of a code before a person typed it, and of at most
//     5 wrong ones in 10 minutes for each person and address, 100 a minute in
//     all. A right code does not reset these counts.
//
// # States
//
//	pending  -> approved  a person approved
//	pending  -> denied    a person denied
//	approved -> used      a poll redeemed the code
//	approved -> denied    the person may not have a key any more when it is redeemed
//
// A code that is pending or approved when its life is over is expired; that is
// computed and not stored.
//
// # Layout of the store
//
// All names share one hash slot. Times are Unix milliseconds of Redis's clock.
//
//	<svc>:device:{codes}:code:<sha256>     sealed record of a device code
//	<svc>:device:{codes}:user:<user code>  the sha256 of its device code
//	<svc>:device:{codes}:pending           sorted set of undecided codes by expiry
//	<svc>:device:{codes}:<what>:<whose>    sorted set of attempts by time
package devicecode
