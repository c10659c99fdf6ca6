//go:build !linux

package redistest

import "os/exec"

// dieWithParent cannot be had here: a killed test may leave its server behind.
func dieWithParent(*exec.Cmd) {}
