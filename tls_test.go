package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"mete/bench/sim"
	"mete/config"
	"mete/config/certs"
	"mete/config/certs/certstest"
)

// secureReplica is a simulated replica behind TLS that wants a certificate.
func secureReplica(t *testing.T, files config.ServerTLS) (address string) {
	t.Helper()
	behind, err := url.Parse(startSim(t, sim.Config{}).URL())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(behind))
	if server.TLS, err = certs.Server(files, nil, "http/1.1"); err != nil {
		t.Fatal(err)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// TestTLSEverywhere has every listener and the replica speak TLS, each with
// certificates on both sides.
func TestTLSEverywhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, name := range []string{"server", "client"} {
		certstest.Issue(t, dir, name, int64(i+1))
	}
	pem := func(name string) string { return filepath.Join(dir, name) }
	listener := config.ServerTLS{CertFile: pem("server.pem"), KeyFile: pem("server.key"), ClientCAFile: pem("client.pem")}
	shown := config.ClientTLS{CAFile: pem("server.pem"), CertFile: pem("client.pem"), KeyFile: pem("client.key")}
	cfg := withPool(siteConfig(), func(p *config.Pool) {
		p.Replicas, p.TLS = []string{"https://" + secureReplica(t, listener)}, shown
	})
	cfg.Listen.Console = "127.0.0.1:0"
	cfg.TLS = config.ListenTLS{API: listener, Console: listener, Admin: listener}
	s := startSite(t, cfg)
	ours, err := certs.Client(shown, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: ours}, Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	for what, at := range map[string]string{
		"API": "https://" + s.api.Addr().String() + "/health", "admin": "https://" + s.running.admin.Addr().String() + "/healthz",
		"console": "https://" + s.pages.Addr().String() + "/login",
	} {
		if status, err := get(client, at); status != 200 {
			t.Errorf("%s: %d %v", what, status, err)
		}
		bare := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ours.RootCAs}}, Timeout: 20 * time.Second}
		if status, err := get(bare, at); err == nil {
			t.Errorf("%s without a certificate: %d", what, status)
		}
		bare.CloseIdleConnections()
	}
	request, _ := http.NewRequest(http.MethodPost, "https://"+s.api.Addr().String()+chatPath, strings.NewReader(chatOf("mete")))
	request.Header.Set("Authorization", "Bearer "+poolKey)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if response.StatusCode != 200 || response.ProtoMajor != 1 {
		t.Errorf("%s %d: %s", response.Proto, response.StatusCode, text)
	}
	s.leaveThroughTLS(ours)
}

func get(client *http.Client, at string) (status int, err error) {
	response, err := client.Get(at)
	if err != nil {
		return 0, err
	}
	_ = response.Body.Close()
	return response.StatusCode, nil
}

// leaveThroughTLS has a client leave while it waits: the watcher must find the
// socket below TLS.
func (s *site) leaveThroughTLS(c *tls.Config) {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 20 * time.Second}, "tcp", s.api.Addr().String(), c)
	if err != nil {
		s.Fatal(err)
	}
	body := `{"sim_fault":"hang","model":"mete","stream":true,"messages":[{"role":"user","content":"hello"}]}`
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		chatPath, poolKey, len(body), body); err != nil {
		s.Fatal(err)
	}
	s.eventually("a replica has it", 20*time.Second, func() bool { return s.running.pools()["general"].Replicas()[0].InFlight() == 1 })
	_ = conn.NetConn().Close()
	s.eventually("it is given up", 10*time.Second, func() bool { return s.gateway.InFlight() == 0 })
	if n, err := testutil.GatherAndCount(s.registry, "mete_client_left_total"); err != nil || n == 0 {
		s.Error("nobody noticed that the client left", err)
	}
}
