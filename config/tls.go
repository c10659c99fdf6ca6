package config

import (
	"crypto/tls"
	"time"
)

// ListenTLS says with what certificates each listener speaks TLS: 1.2 or
// newer. The files are read again when they change.
type ListenTLS struct {
	// API is the TLS of listen.api.
	API ServerTLS `yaml:"api"`
	// Console is the TLS of listen.console.
	Console ServerTLS `yaml:"console"`
	// Admin is the TLS of listen.admin.
	Admin ServerTLS `yaml:"admin"`
}

// ServerTLS is what one listener shows its clients, and wants of them.
type ServerTLS struct {
	// CertFile is a PEM file with the certificate that is shown, and those
	// between it and its authority. Default: empty, no TLS.
	CertFile string `yaml:"cert_file"`
	// KeyFile is a PEM file with the key of cert_file. Required with it.
	KeyFile string `yaml:"key_file"`
	// ClientCAFile is a PEM file with the certificate authorities that clients'
	// certificates are checked against. Default: empty, none is asked for.
	ClientCAFile string `yaml:"client_ca_file"`
	// ClientCert is required, or optional: then a client may show none, but no
	// false one. Only with client_ca_file. Default: empty, required.
	ClientCert string `yaml:"client_cert"`
}

// On reports whether the listener speaks TLS.
func (t ServerTLS) On() bool { return t.CertFile != "" }

// What ServerTLS.ClientCert may be.
const (
	CertRequired = "required"
	CertOptional = "optional"
)

// ClientTLS says whom to believe, and what to show, on connections that the
// gateway opens. The same everywhere.
type ClientTLS struct {
	// CAFile is a PEM file with the certificate authorities that the server's
	// certificate is checked against. Default: empty, those of the system.
	CAFile string `yaml:"ca_file"`
	// CertFile is a PEM file with the certificate that is shown to the server.
	// Default: empty, none is shown.
	CertFile string `yaml:"cert_file"`
	// KeyFile is a PEM file with the key of cert_file. Required with it.
	KeyFile string `yaml:"key_file"`
	// ServerName is the name in the server's certificate, where it is not the
	// host that is connected to. Default: empty.
	ServerName string `yaml:"server_name"`
}

// ProxyProtocol says which balancers name the client by the PROXY protocol,
// version 1 or 2, on the API listener and the console.
type ProxyProtocol struct {
	// From are the addresses of the balancers, as 10.0.0.5 or 10.0.0.0/8. What
	// comes from elsewhere is plain HTTP. Default: [].
	From []string `yaml:"from"`
	// Optional lets the balancers also connect without a header. Default: false.
	Optional bool `yaml:"optional"`
	// Timeout is how long a balancer may take to send the header. Duration.
	// Default: 3s.
	Timeout time.Duration `yaml:"timeout"`
}

// readTLSFiles resolves the paths of all PEM files, and notes those that cannot
// be used.
func (d *document) readTLSFiles(c *Config) {
	for path, t := range map[string]*ServerTLS{"tls.api": &c.TLS.API, "tls.console": &c.TLS.Console, "tls.admin": &c.TLS.Admin} {
		d.pair(path, &t.CertFile, &t.KeyFile)
		d.authorities(path+".client_ca_file", &t.ClientCAFile)
	}
	d.readClientTLS("redis.tls", &c.Redis.TLS)
	d.readClientTLS("consul.tls", &c.Consul.TLS)
	for _, name := range c.PoolNames() {
		pool := c.Pools[name]
		d.readClientTLS(join("pools", name)+".tls", &pool.TLS)
		c.Pools[name] = pool
	}
}

func (d *document) readClientTLS(path string, t *ClientTLS) {
	d.pair(path, &t.CertFile, &t.KeyFile)
	d.authorities(path+".ca_file", &t.CAFile)
}

// pair reads a certificate and its key.
func (d *document) pair(path string, certFile, keyFile *string) {
	cert, certOK := d.pem(path+".cert_file", certFile)
	key, keyOK := d.pem(path+".key_file", keyFile)
	switch {
	case d.has(path+".cert_file") && !d.has(path+".key_file"):
		d.fail(path+".cert_file", "is of no use alone: add key_file, or remove the line")
	case !d.has(path+".cert_file") && d.has(path+".key_file"):
		d.fail(path+".key_file", "is of no use alone: add cert_file, or remove the line")
	case certOK && keyOK:
		if _, err := tls.X509KeyPair(cert, key); err != nil {
			d.fail(path+".key_file", "is not the key of cert_file: give a certificate and its own key, both in PEM form")
		}
	}
}

func (d *document) authorities(path string, file *string) {
	if data, ok := d.pem(path, file); ok {
		d.certificates(path, data)
	}
}

// pem reads a file, if one is given, and makes its path absolute.
func (d *document) pem(path string, file *string) (data []byte, ok bool) {
	if !d.has(path) {
		return nil, false
	}
	data = d.content(path, *file)
	*file = d.resolve(*file)
	return data, !d.broken(path)
}

func (d *document) checkTLS(c *Config) {
	for path, t := range map[string]ServerTLS{"tls.api": c.TLS.API, "tls.console": c.TLS.Console, "tls.admin": c.TLS.Admin} {
		for _, name := range []string{"client_ca_file", "client_cert"} {
			if d.has(path+"."+name) && !d.has(path+".cert_file") {
				d.fail(path+"."+name, "is of no use without TLS: add cert_file and key_file, or remove the line")
			}
		}
		if d.has(path + ".client_cert") {
			d.oneOf(path+".client_cert", t.ClientCert, []string{CertRequired, CertOptional})
			if !d.has(path + ".client_ca_file") {
				d.fail(path+".client_cert", "is of no use alone: add client_ca_file, or remove the line")
			}
		}
	}
	if d.has("tls.console") && c.Listen.Console == "" {
		d.fail("tls.console", "is of no use without the console: add listen.console, or remove it")
	}
	d.prefixes("proxy_protocol.from", c.ProxyProtocol.From)
	d.span("proxy_protocol.timeout", c.ProxyProtocol.Timeout, 10*time.Millisecond, time.Minute)
}

// useless notes TLS settings for connections that are made without it.
func (d *document) useless(path, remedy string) {
	for _, name := range []string{"ca_file", "cert_file", "key_file", "server_name"} {
		if d.has(path + "." + name) {
			d.fail(path+"."+name, "is of no use without TLS: %s, or remove the line", remedy)
		}
	}
}
