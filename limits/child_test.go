package limits

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"mete/config"
)

// A gateway process of its own: this test binary again, told by its
// environment what to do.
const (
	childTask = "METE_LIMITS_TEST_TASK" // load or hold
	childAddr = "METE_LIMITS_TEST_REDIS"
	childKey  = "METE_LIMITS_TEST_KEY"
	childTime = "METE_LIMITS_TEST_TIME"
)

func isChild() bool { return os.Getenv(childTask) != "" }

func runChild() {
	t := &child{}
	took, err := time.ParseDuration(os.Getenv(childTime))
	t.check(err)
	c := config.Default().Redis
	c.URL = config.Secret("redis://" + os.Getenv(childAddr))
	rdb, err := Open(c)
	t.check(err)
	p := exactPlan(took)
	if os.Getenv(childTask) == "hold" {
		p = holdPlan()
	}
	l := New(Options{
		Service: "mete", Redis: rdb, Peppers: testPeppers(t), Timeout: testTimeout,
		Plans: map[string]config.Plan{"p": p}, Lease: holdLease,
	})
	if os.Getenv(childTask) == "hold" {
		hold(t, l)
	}
	load(l, []byte(os.Getenv(childKey)), took)
	l.Close(context.Background())
}

// child stands for the testing.TB that a child has not.
type child struct{ testing.TB }

func (c *child) Helper() {}

func (c *child) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}

func (c *child) check(err error) {
	if err != nil {
		c.Fatal(err)
	}
}

// startChild runs a gateway process and returns its output.
func startChild(t *testing.T, task, addr string, key []byte, took time.Duration) (*exec.Cmd, io.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childTask+"="+task, childAddr+"="+addr, childKey+"="+string(key), childTime+"="+took.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, out
}

const holdLease = 1500 * time.Millisecond

func holdPlan() config.Plan { return plan(concurrent(50)) }

// hold takes all slots and keeps them until it is killed.
func hold(t *child, l *Limiter) {
	for range 50 {
		if _, err := l.Reserve(context.Background(), ask([]byte(os.Getenv(childKey)), 1)); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("held")
	select {}
}
