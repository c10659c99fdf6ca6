package config

import (
	"strings"
	"unicode"
)

// readFiles replaces each secret that is given as a file by its content.
func (d *document) readFiles(c *Config) {
	d.secret("redis.url", &c.Redis.URL, c.Redis.URLFile)
	d.secret("keystore.admin_token", &c.Keystore.AdminToken, c.Keystore.AdminTokenFile)
	d.secret("console.oidc.client_secret", &c.Console.OIDC.ClientSecret, c.Console.OIDC.ClientSecretFile)
	d.secret("consul.token", &c.Consul.Token, c.Consul.TokenFile)
	d.secret("trace.authorization", &c.Trace.Authorization, c.Trace.AuthorizationFile)
	d.readTLSFiles(c)
	if d.has("state_dir") {
		c.StateDir = d.resolve(c.StateDir)
	}
	for i := range c.Keystore.Peppers {
		pepper := &c.Keystore.Peppers[i]
		d.secret(index("keystore.peppers", i)+".secret", &pepper.Secret, pepper.SecretFile)
	}
	for _, name := range c.PoolNames() {
		pool := c.Pools[name]
		d.secret(join("pools", name)+".api_key", &pool.APIKey, pool.APIKeyFile)
		c.Pools[name] = pool
	}
}

// secret reads the file of a secret, if one is given, and checks what it got.
func (d *document) secret(path string, secret *Secret, file string) {
	source := path
	if d.has(path + "_file") {
		source = path + "_file"
		if d.has(path) {
			d.fail(path, "is given twice, here and in a file: keep one of the two")
			return
		}
		*secret = Secret(trimLineEnd(string(d.content(source, file))))
	}
	if !d.has(source) || d.broken(source) {
		return
	}
	if *secret == "" {
		d.fail(source, "is empty: give a value, or remove the line")
	}
	if strings.ContainsFunc(secret.Reveal(), unicode.IsControl) {
		d.fail(source, "holds a line break or another control character: remove it")
	}
}

func (d *document) content(path, file string) []byte {
	if d.broken(path) {
		return nil
	}
	data, err := d.read(d.resolve(file))
	if err != nil {
		d.fail(path, "%s cannot be read: %v", d.quoted(path), err)
	}
	return data
}

// trimLineEnd removes the one line end that editors and echo leave behind.
func trimLineEnd(text string) string {
	return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
}
