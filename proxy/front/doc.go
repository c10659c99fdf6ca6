// Package front is what a connection passes before HTTP begins: the bounds on
// how many there may be, in all and from one address, the PROXY protocol of a
// balancer in front, and TLS.
//
// It promises that a listener survives a process that has run out of
// descriptors, that nobody who is slow there holds up another, that a
// connection which is refused is told so in HTTP, and that what it hands on is
// the client's socket itself: nothing stands between a server and its reads and
// writes but TLS.
package front
