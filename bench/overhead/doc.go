// Package overhead measures what a proxy costs: the gateway, nginx, HAProxy, or
// any other, each in front of the same simulated replicas, against no proxy at
// all.
//
// It owns the laboratory (replicas, a Redis, keys, and each proxy as a process
// of its own, with generated configuration, all on loopback) and the
// experiments. The proxies take turns within each round, so that what else the
// machine does meets them all, and every figure is kept for every round: what is
// to be trusted are ratios within a round and their spread, not microseconds.
//
// Processor time is the kernel's own account of the proxy's processes. Where
// the machine has more than one core, proxies have the last one to themselves
// and everything else shares the others.
//
// Every process ends with the laboratory, also when this process is killed.
package overhead
