// Package proxy is the path of a request: HTTP in, HTTP out. It alone knows
// fasthttp's server, and the connections to replicas.
//
// An exchange is one request with its answer. Seven verbs carry it, all of them
// readable in chat.go: identify the key, read the body, reserve what the caller
// may use, acquire a replica, forward the request, relay the answer, settle.
//
// What the package promises:
//
//   - The body of a 2xx is, byte for byte, the replica's. What one read from
//     the replica brought in is written to the client at once, in one write.
//   - An answer that was cut upstream never looks complete to the client.
//   - A client that leaves, in whatever phase, closes the upstream connection.
//   - Every exchange is settled exactly once: its grant, its lease, its
//     metrics and its log line. A panic is no exception.
//   - Only headers on a list reach a replica; the request line is built here.
//   - Nothing borrowed from a RequestCtx outlives its handler and its body
//     stream, and no RequestCtx is ever used as a context.
package proxy
