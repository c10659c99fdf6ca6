// Package sim is a simulated vLLM replica: a server that answers as vLLM does,
// with vLLM's wire format, timing, load figures and ways to fail, and without
// a GPU. Tests, try-it mode and scheduling experiments run against it.
//
// It owns three things, from the inside out:
//
//   - Engine, the scheduling model: continuous batching, chunked prefill and a
//     KV cache in blocks with prefix reuse. It is a pure function of time: no
//     goroutines, no clock, no randomness but its seed. Profile holds its
//     constants and says where each comes from.
//   - The answer: text, tool calls, reasoning and embeddings are derived from
//     Config.Seed and the prompt alone, so that Render and Text can tell a
//     test which bytes to expect.
//   - Replica, the HTTP/1.1 server around both: its own loop over net.Conn,
//     one write per event, the header at once and the first body byte when the
//     model has produced the first token.
//
// Faults are asked for by the request header x-sim-fault, by the top-level
// body member "sim_fault" (a gateway strips unknown headers and lets unknown
// members pass), by POST /sim/fault, or by Replica.SetFault; see Fault for the
// grammar.
//
// A Replica promises that a client which leaves is noticed within
// milliseconds in every phase, that every request ends up counted exactly once
// as finished, aborted or refused, and that Close leaves no goroutine behind.
package sim
