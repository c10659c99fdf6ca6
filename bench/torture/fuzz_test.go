package torture

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// FuzzFrontDoor sends bytes through a real listener. Whatever they are, every
// answer can be read, and as many requests reach the upstream as are answered by
// it. Bytes that want more to come are given up soon.
func FuzzFrontDoor(f *testing.F) {
	for _, r := range everyRow() {
		if len(r.wire) < 2000 {
			f.Add([]byte(r.wire))
		}
	}
	u := startUpstream(f)
	address := startGateway(f, u)
	f.Fuzz(func(t *testing.T, wire []byte) {
		before := u.posts.Load() + u.wrong.Load()
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Skip(err) // the machine is out of ports
		}
		defer func() { _ = c.Close() }()
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.SetDeadline(time.Now().Add(time.Second / 4))
		_, _ = io.WriteString(c, string(wire)+next)
		method, _, _ := strings.Cut(strings.TrimLeft(string(wire), "\r\n"), " ")
		got, relayed := answers(bufio.NewReader(c), method)
		switch {
		case strings.Contains(got, "hangs"), strings.Contains(got, "timeout"):
			return
		case strings.Contains(got, "unreadable"):
			t.Fatalf("%q: %s", wire, got)
		}
		if reached := u.posts.Load() + u.wrong.Load() - before; reached != int64(relayed) {
			t.Fatalf("%q: %d requests reached the upstream, and it answered %d (%s)", wire, reached, relayed, got)
		}
	})
}
