// Package trace sends OpenTelemetry spans of exchanges that are over. It alone
// knows the OpenTelemetry SDK.
//
// A Context says where a request stands in a trace: it is read from the
// caller's traceparent (W3C Trace Context), decides whether spans are made, and
// is passed on. Spans are made at the end of an exchange, from the times that
// it has written down anyway, so a request that is not sampled pays for nothing
// but the context, and with tracing off for nothing at all. No span holds a
// key, a prompt, or anything else that a caller made up.
package trace
