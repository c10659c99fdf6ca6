package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel end the server when the test process is
// killed, a panic on a test's time-out included: no cleanup runs then.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
