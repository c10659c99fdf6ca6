package front

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"mete/config"
)

// TestAListenerThatEndsWhileHeadersAreRead: those who have just read one must
// not hand their connections to a listener that is gone.
func TestAListenerThatEndsWhileHeadersAreRead(t *testing.T) {
	const clients = 32
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entering, ended := make(chan struct{}, clients), make(chan struct{})
	l := New(inner, new(Addresses), Options{
		Balancers: config.NewProxies([]string{"127.0.0.1"}), HeaderRequired: true, HeaderTimeout: 5 * time.Second,
		Bounds:     func() Bounds { return Bounds{} },
		Forwarders: func(netip.Addr) bool { entering <- struct{}{}; <-ended; return false },
	})
	for i := range clients {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_, _ = fmt.Fprintf(c, "PROXY TCP4 192.0.2.%d 10.0.0.1 1 80\r\n", i+1)
	}
	for range clients {
		<-entering
	}
	_ = l.Close()
	if _, err := l.Accept(); err == nil {
		t.Error("a closed listener has handed out a connection")
	}
	close(ended)
	for deadline := time.Now().Add(5 * time.Second); l.Open() > 0; time.Sleep(time.Millisecond) { // has no event
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are left open", l.Open())
		}
	}
}
