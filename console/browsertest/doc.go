// Package browsertest gives tests a real browser and the axe accessibility
// checker. Where either cannot be had it skips the test, loudly, unless CI=true
// asks for everything.
package browsertest
