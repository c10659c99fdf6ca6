package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"mete/config"
)

// Server makes what a listener needs; nil if it has no TLS. The protocols are
// what it speaks above TLS. trouble, which may be nil, is told once when
// changed files cannot be used.
func Server(t config.ServerTLS, trouble func(error), protocols ...string) (*tls.Config, error) {
	if !t.On() {
		return nil, nil
	}
	load := func() (*tls.Config, error) {
		made, err := serverConfig(t)
		if err == nil {
			made.NextProtos = protocols
		}
		return made, err
	}
	now, err := watch(load, trouble, t.CertFile, t.KeyFile, t.ClientCAFile)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return now.get(), nil },
	}, nil
}

func serverConfig(t config.ServerTLS) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	made := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	if t.ClientCAFile == "" {
		return made, nil
	}
	// A ticket would let a client in whose certificate would not any more.
	made.SessionTicketsDisabled = true
	made.ClientAuth = tls.RequireAndVerifyClientCert
	if t.ClientCert == config.CertOptional {
		made.ClientAuth = tls.VerifyClientCertIfGiven
	}
	made.ClientCAs, err = authorities(t.ClientCAFile)
	return made, err
}

// Client makes what connections to a server need. The authorities are read
// once, what is shown to the server again when it changes.
func Client(t config.ClientTLS, trouble func(error)) (*tls.Config, error) {
	made := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	var err error
	if t.CAFile != "" {
		if made.RootCAs, err = authorities(t.CAFile); err != nil {
			return nil, err
		}
	}
	if t.CertFile == "" {
		return made, nil
	}
	load := func() (*tls.Certificate, error) {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		return &cert, err
	}
	now, err := watch(load, trouble, t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	made.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return now.get(), nil }
	return made, nil
}

func authorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("certificate authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("certificate authorities: %s holds none", file)
	}
	return pool, nil
}
