// Package consultest is a stand-in for a Consul agent, and a layer of faults to
// put before it or before a real one. It is for tests alone.
//
// Agent follows the documented semantics of the catalogue's blocking queries:
// X-Consul-Index grows with every write, a query with the present index is held
// back until the next write or for the time that it asked for and up to a
// sixteenth more, a return is no proof of a change, and a restarted agent
// begins with a small index. It keeps what tests of the gateway need: services,
// their TTL checks and maintenance.
package consultest
