// Package torture holds requests, byte for byte, that were made to be read in
// two ways, and what the gateway must say to each. It has tests only: they send
// them through a real listener to a gateway with a counting upstream behind it,
// and hold its verdicts against those of nginx and HAProxy.
//
// What they promise: for every answer that an upstream has given there was
// exactly one request that the gateway has accepted, however its bytes were cut
// on their way.
package torture
