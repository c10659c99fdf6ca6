package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"mete/config"
)

// behindBalancer makes loopback a balancer that speaks the PROXY protocol.
func behindBalancer(cfg *config.Config) {
	cfg.ProxyProtocol = config.ProxyProtocol{From: []string{"127.0.0.1"}, Timeout: 5 * time.Second}
}

// eventually waits until ok says yes.
func (r *rig) eventually(what string, ok func() bool) {
	r.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.Fatal("not within 20 s: " + what)
		}
	}
}

func (r *rig) health() *http.Response {
	r.Helper()
	response, err := r.client.Get(r.url + "/health")
	if err != nil {
		r.Fatal(err)
	}
	_ = response.Body.Close()
	return response
}

func from(address string) string { return "PROXY TCP4 " + address + " 10.0.0.1 56324 80\r\n" }

// dialRaw opens a connection and sends bytes on it.
func (r *rig) dialRaw(send string) net.Conn {
	r.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, send); err != nil {
		r.Fatal(err)
	}
	return c
}

// answerOn reads one answer, nil if there is none.
func answerOn(c net.Conn) *http.Response {
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return nil
	}
	return response
}

// hangBody asks for an answer that does not begin.
const hangBody = `{"sim_fault":"hang","model":"mete","stream":true,"messages":[{"role":"user","content":"hello"}]}`

const (
	getModels     = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
	getModelsOnce = "GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
)

func TestBoundsBehindABalancerSeeTheClient(t *testing.T) {
	r := newRig(t, withConfig(behindBalancer), withConfig(func(cfg *config.Config) { cfg.Bounds.ConnectionsPerAddress = 2 }))
	var held []net.Conn
	for range 2 {
		c := r.dialRaw(from("192.0.2.1") + getModels)
		if a := answerOn(c); a == nil || a.StatusCode != 200 {
			t.Fatalf("%+v", a)
		}
		held = append(held, c)
	}
	refused := answerOn(r.dialRaw(from("192.0.2.1") + getModels))
	if refused == nil {
		t.Fatal("a third connection of one client was cut without a word")
	}
	if refused.Header.Get("retry-after") != "1" || refused.Header.Get("x-request-id") == "" {
		t.Errorf("%v", refused.Header)
	}
	wantError(t, refused, 429, "too_many_connections", "")
	if a := answerOn(r.dialRaw(from("192.0.2.2") + getModels)); a == nil || a.StatusCode != 200 {
		t.Errorf("another client behind the same balancer: %+v", a)
	}
	_ = held[0].Close()
	r.eventually("a place is free again", func() bool {
		a := answerOn(r.dialRaw(from("192.0.2.1") + getModels))
		return a != nil && a.StatusCode == 200
	})
	if got := r.counted("connections_refused_total")["address"]; got < 1 {
		t.Error("it is not counted")
	}
}

func TestABalancerThatSendsNoHeaderIsCut(t *testing.T) {
	r := newRig(t, withConfig(behindBalancer))
	for _, send := range []string{getModels, "PROXY TCP4 nonsense\r\n" + getModels} {
		if a := answerOn(r.dialRaw(send)); a != nil {
			t.Errorf("%q was answered: %d", send, a.StatusCode)
		}
	}
	for reason, want := range map[string]float64{"no_header": 1, "bad_header": 1} {
		if got := r.counted("connections_refused_total")[reason]; got != want {
			t.Errorf("%s is counted %v times", reason, got)
		}
	}
}

func TestAHeaderFromElsewhereIsNotBelieved(t *testing.T) {
	r := newRig(t, withConfig(func(cfg *config.Config) {
		behindBalancer(cfg)
		cfg.ProxyProtocol.From = []string{"192.0.2.7"}
	}))
	if a := answerOn(r.dialRaw(from("192.0.2.1") + getModels)); a == nil || a.StatusCode != 400 {
		t.Errorf("%+v", a)
	}
}

func TestASlowHeaderHoldsUpNobody(t *testing.T) {
	r := newRig(t, withConfig(behindBalancer))
	for range 50 {
		r.dialRaw("PROXY TC")
	}
	if a := answerOn(r.dialRaw(from("192.0.2.1") + getModels)); a == nil || a.StatusCode != 200 {
		t.Errorf("%+v", a)
	}
}

// TestALeavingClientIsSeenBehindABalancer: the watcher needs the socket itself.
func TestALeavingClientIsSeenBehindABalancer(t *testing.T) {
	r := newRig(t, withConfig(behindBalancer))
	c := r.dialRaw(from("192.0.2.1") + rawChat(hangBody))
	r.eventually("the replica works", func() bool { return r.gateway.table.Load().models["mete"].pool.Replicas()[0].InFlight() == 1 })
	_ = c.Close()
	r.awaitIdle()
	r.wantNoLeases()
	if left := r.counted("client_left_total"); len(left) == 0 || r.counted("unwatched_total")[""] != 0 {
		t.Errorf("left %v", left)
	}
}

func rawChat(body string) string {
	return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		testKey, len(body), body)
}

func TestAConnectionTooManyIsToldSo(t *testing.T) {
	r := newRig(t, withConfig(func(cfg *config.Config) { cfg.Bounds.Connections = 3 }))
	var held []net.Conn
	for range 3 {
		c := r.dialRaw(getModels)
		if a := answerOn(c); a == nil || a.StatusCode != 200 {
			t.Fatalf("%+v", a)
		}
		held = append(held, c)
	}
	refused := answerOn(r.dialRaw(getModels))
	if refused == nil {
		t.Fatal("cut without a word")
	}
	wantError(t, refused, 503, "gateway_overloaded", "")
	for _, c := range held {
		_ = c.Close()
	}
	r.eventually("it comes back", func() bool {
		a := answerOn(r.dialRaw(getModels))
		return a != nil && a.StatusCode == 200
	})
}

// TestAFloodOfConnectionsLeavesNothingBehind: most of them are just cut, since
// only so many are told at one time.
func TestAFloodOfConnectionsLeavesNothingBehind(t *testing.T) {
	r := newRig(t, withConfig(func(cfg *config.Config) { cfg.Bounds.Connections = 1 }))
	var flood sync.WaitGroup
	for range 300 {
		flood.Go(func() {
			if c, err := net.Dial("tcp", r.addr); err == nil {
				_ = c.SetDeadline(time.Now().Add(10 * time.Second))
				_, _ = io.WriteString(c, getModelsOnce)
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			}
		})
	}
	flood.Wait()
	r.eventually("the gateway answers", func() bool {
		a := answerOn(r.dialRaw(getModelsOnce))
		return a != nil && a.StatusCode == 200
	})
}

func TestARequestTooManyIsRefused(t *testing.T) {
	r := newRig(t, withConfig(func(cfg *config.Config) { cfg.Bounds.Requests = 2 }))
	var held []net.Conn
	for range 2 {
		held = append(held, r.dialRaw(rawChat(hangBody)))
	}
	r.eventually("two requests run", func() bool { return r.gateway.table.Load().models["mete"].pool.Replicas()[0].InFlight() == 2 })
	wantError(t, r.post("/v1/chat/completions", chatBody), 503, "gateway_overloaded", "")
	if response := r.health(); response.StatusCode != 200 {
		t.Errorf("/health: %d", response.StatusCode)
	}
	for _, c := range held {
		_ = c.Close()
	}
	r.awaitIdle()
	r.wantNoLeases()
}

// TestRequestsByAProxyCountForTheirClient: its connections are everybody's.
func TestRequestsByAProxyCountForTheirClient(t *testing.T) {
	r := newRig(t, withConfig(func(cfg *config.Config) {
		cfg.Bounds.ConnectionsPerAddress = 1
		cfg.TrustedProxies = []string{"127.0.0.1"}
	}))
	by := func(client string) string {
		return strings.Replace(rawChat(hangBody), "\r\n", "\r\nX-Forwarded-For: "+client+"\r\n", 1)
	}
	first := r.dialRaw(by("2001:db8::1"))
	r.eventually("it runs", func() bool { return r.gateway.table.Load().models["mete"].pool.Replicas()[0].InFlight() == 1 })
	refused := answerOn(r.dialRaw(by("2001:db8::2"))) // of the same /64
	if refused == nil {
		t.Fatal("no answer")
	}
	wantError(t, refused, 429, "too_many_connections", "")
	second := r.dialRaw(by("192.0.2.1"))
	r.eventually("another client's runs", func() bool { return r.gateway.table.Load().models["mete"].pool.Replicas()[0].InFlight() == 2 })
	_, _ = first.Close(), second.Close()
	r.awaitIdle()
	r.wantNoLeases()
	if n := r.gateway.addresses.Len(); n != 0 {
		t.Errorf("%d addresses hold something still", n)
	}
}

func TestBoundsFitIntoTheDescriptors(t *testing.T) {
	wanted := config.Default().Bounds
	for _, c := range []struct{ descriptors, connections, requests int }{
		{1 << 20, 20000, 10000}, {20000, 9744, 9744}, {1024, 448, 448}, {100, 18, 18}, {10, 1, 1},
	} {
		got := fit(wanted, c.descriptors)
		if got.connections != c.connections || got.requests != c.requests {
			t.Errorf("%d descriptors: %+v", c.descriptors, got)
		}
	}
}
