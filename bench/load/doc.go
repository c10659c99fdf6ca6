// Package load is a load generator for servers that speak OpenAI's HTTP API.
//
// It owns three things:
//
//   - When requests are sent. A Schedule is a pure function of time; an open
//     loop follows it whatever the server does, and every latency is counted
//     from the moment at which a request was meant to leave, so that a server
//     which makes its callers wait cannot hide it. Without a schedule the loop
//     is closed: each caller sends its next request after its last answer.
//   - What is sent: requests from a seed, from a file of conversations, or from
//     a trace. Their bytes are made before the run.
//   - What comes back: a strict reader of HTTP/1.1 answers and their events, on
//     connections of its own, one goroutine for each request in flight. Every
//     event has a time of its own, also where one read brought several.
//
// Results are data: a Result marshals to the JSON that `vllm bench serve`
// writes, field by field, with what that lacks beside it.
//
// A run talks to the one address in its Target, leaves no goroutine behind, and
// counts each request once: as completed, failed, or unfinished when the run
// was stopped before its end.
package load
