//go:build !race

package balancer

const raceDetector = false
