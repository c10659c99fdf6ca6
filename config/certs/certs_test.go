package certs

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mete/config"
	"mete/config/certs/certstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serverFiles(dir string) config.ServerTLS {
	return config.ServerTLS{CertFile: filepath.Join(dir, "server.pem"), KeyFile: filepath.Join(dir, "server.key")}
}

// echo answers each connection with what it sends, until the test ends.
func echo(t *testing.T, c *tls.Config) (address string) {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", c)
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wait.Go(func() {
				_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() { _ = ln.Close(); wait.Wait() })
	return ln.Addr().String()
}

// call says one byte over a new connection and returns the serial number of
// what the server has shown.
func call(address string, c *tls.Config) (serial int64, err error) {
	dialer := &net.Dialer{Timeout: 20 * time.Second}
	conn, err := tls.DialWithDialer(dialer, "tcp", address, c)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := conn.Write([]byte{1}); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		return 0, err
	}
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

// TestCertificatesRotateUnderTraffic: no handshake fails, open connections stay,
// and a pair of which one file has come does no harm.
func TestCertificatesRotateUnderTraffic(t *testing.T) {
	dir := t.TempDir()
	certstest.Issue(t, dir, "server", 1)
	var troubles atomic.Int64
	made, err := Server(serverFiles(dir), func(error) { troubles.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	address := echo(t, made)
	trusting := &tls.Config{InsecureSkipVerify: true}
	open, err := tls.Dial("tcp", address, trusting)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	var traffic sync.WaitGroup
	var seen sync.Map
	stop := make(chan struct{})
	for range 4 {
		traffic.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				serial, err := call(address, trusting)
				if err != nil {
					t.Error(err)
					return
				}
				seen.Store(serial, true)
			}
		})
	}
	key, err := os.ReadFile(filepath.Join(dir, "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	certstest.Issue(t, dir, "server", 2)
	newKey, err := os.ReadFile(filepath.Join(dir, "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	certstest.Replace(t, filepath.Join(dir, "server.key"), key) // the old key beside the new certificate
	eventually(t, "trouble is told", func() bool { return troubles.Load() > 0 })
	certstest.Replace(t, filepath.Join(dir, "server.key"), newKey)
	eventually(t, "the new certificate is shown", func() bool { _, ok := seen.Load(int64(2)); return ok })
	close(stop)
	traffic.Wait()
	if _, err := open.Write([]byte{1}); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(open, make([]byte, 1)); err != nil {
		t.Error("a connection of before:", err)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within 20 s: " + what)
		}
	}
}

func TestClientsWithoutACertificateOfOursAreRefused(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"server", "friend", "stranger"} {
		certstest.Issue(t, dir, name, int64(i+1))
	}
	for _, c := range []struct {
		name, word, shows string
		fine              bool
	}{
		{"required, ours", "", "friend", true},
		{"required, none", config.CertRequired, "", false},
		{"required, a stranger's", config.CertRequired, "stranger", false},
		{"optional, ours", config.CertOptional, "friend", true},
		{"optional, none", config.CertOptional, "", true},
		{"optional, a stranger's", config.CertOptional, "stranger", false},
	} {
		files := serverFiles(dir)
		files.ClientCAFile, files.ClientCert = filepath.Join(dir, "friend.pem"), c.word
		server, err := Server(files, nil)
		if err != nil {
			t.Fatal(err)
		}
		ours := config.ClientTLS{CAFile: files.CertFile, ServerName: "server"}
		if c.shows != "" {
			ours.CertFile, ours.KeyFile = filepath.Join(dir, c.shows+".pem"), filepath.Join(dir, c.shows+".key")
		}
		client, err := Client(ours, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := call(echo(t, server), client); (err == nil) != c.fine {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestWhatIsOlderThanTLS12IsRefused(t *testing.T) {
	dir := t.TempDir()
	certstest.Issue(t, dir, "server", 1)
	server, err := Server(serverFiles(dir), nil, "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	address := echo(t, server)
	for version, fine := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		client := &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version}
		if _, err := call(address, client); (err == nil) != fine {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
	if _, err := call(address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}); err == nil {
		t.Error("a client that speaks HTTP/2 alone was let in")
	}
}

func TestFilesThatCannotBeUsedAreAnError(t *testing.T) {
	dir := t.TempDir()
	certstest.Issue(t, dir, "server", 1)
	missing := serverFiles(dir)
	missing.ClientCAFile = filepath.Join(dir, "missing")
	if _, err := Server(missing, nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Client(config.ClientTLS{CAFile: filepath.Join(dir, "server.key")}, nil); err == nil {
		t.Error("a key was taken for an authority")
	}
	if made, err := Server(config.ServerTLS{}, nil); made != nil || err != nil {
		t.Error(made, err)
	}
}
