// Package redistest gives tests a Redis: a real redis-server process of their
// own, or the embedded store that the gateway itself uses in try-it mode.
//
// It owns the processes that it starts, each on a free loopback port with a
// directory of its own, and ends those and no others. Without redis-server on
// the PATH the real half is skipped with a message; where the environment
// says CI=true it fails instead, so that a build machine cannot pass without.
package redistest
