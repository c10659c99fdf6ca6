package config

import (
	"crypto/x509"
	"net"
	"regexp"
	"slices"
	"strconv"
	"time"
)

const (
	day          = 24 * time.Hour
	longestWait  = day
	minToken     = 16 // characters of the admin token
	minPepper    = 32 // characters: openssl rand -hex 16 at the least
	maxPepper    = 255
	maxCount     = 1 << 40 // far below 2^53, where Lua's numbers lose their units
	maxSockets   = 1_000_000
	maxInFlight  = 1 << 40
	smallestHead = KiB
	largestHead  = MiB
)

var serviceWord = regexp.MustCompile(`^[a-z]{4}$`)

// check notes what is wrong in fields that could be read, and between fields.
func (d *document) check(c *Config) {
	if !serviceWord.MatchString(c.Service) {
		d.fail("service", "%s is not a service word: write exactly 4 lower-case letters, like mete", d.quoted("service"))
	}
	d.checkListen(c.Listen)
	d.checkTLS(c)
	d.checkRedis(c.Redis)
	d.checkConsul(c)
	d.checkKeystore(c)
	// Pools first: where they are missing altogether, no model is told so again.
	d.checkPools(c)
	d.checkModels(c)
	d.checkPlans(c)
	d.checkKeys(c)
	d.checkConsole(c)
	d.checkDevice(c)
	d.checkBounds(c.Bounds)
	d.checkTimeouts(c)
	d.checkObserve(c)
}

func (d *document) checkListen(l Listen) {
	apiHost, apiPort, apiOK := d.address("listen.api", l.API)
	adminHost, adminPort, adminOK := d.address("listen.admin", l.Admin)
	if !apiOK || !adminOK || apiPort != adminPort || apiPort == "0" {
		return
	}
	if apiHost == adminHost || wildcard(apiHost) || wildcard(adminHost) {
		d.fail(d.either("listen.admin", "listen.api"), "listen.api and listen.admin are the same address: give each a port of its own")
	}
}

func (d *document) address(path, address string) (host, port string, ok bool) {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		d.fail(path, `%s is not an address: write host:port, like 127.0.0.1:8080, or ":8080" for every interface`, d.quoted(path))
	}
	return host, port, err == nil
}

func wildcard(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

func (d *document) checkKeystore(c *Config) {
	k := c.Keystore
	if k.AdminToken != "" && len(k.AdminToken) < minToken {
		d.fail(d.given("keystore.admin_token"), "is shorter than %d characters: make one with openssl rand -hex 32", minToken)
	}
	if k.AdminToken != "" && len(k.Peppers) == 0 && c.Redis.Kind() != RedisEmbedded {
		d.fail("keystore.peppers", "is needed to make keys: add {version: 1, secret_file: FILE}, or remove admin_token")
	}
	versions := map[int]int{}
	for i, pepper := range k.Peppers {
		path := index("keystore.peppers", i)
		d.checkPepper(path, pepper)
		unique(d, versions, pepper.Version, i, path+".version", "keystore.peppers")
	}
}

func (d *document) checkPepper(path string, pepper Pepper) {
	d.upTo(path+".version", int64(pepper.Version), maxPepper)
	secret := d.given(path + ".secret")
	switch {
	case !d.has(secret):
		d.fail(path, "has no secret: add secret_file, a file made with openssl rand -hex 32")
	case len(pepper.Secret) < minPepper:
		d.fail(secret, "is shorter than %d characters: make one with openssl rand -hex 32", minPepper)
	}
}

func (d *document) checkBounds(b Bounds) {
	d.size("bounds.body", b.Body, 1, maxInFlight)
	d.size("bounds.bodies_in_flight", b.BodiesInFlight, 1, maxInFlight)
	d.size("bounds.header_bytes", b.HeaderBytes, smallestHead, largestHead)
	d.upTo("bounds.requests", int64(b.Requests), maxSockets)
	d.upTo("bounds.connections_per_address", int64(b.ConnectionsPerAddress), maxSockets)
	d.upTo("bounds.connections", int64(b.Connections), maxSockets)
	d.upTo("bounds.replica_connections", int64(b.ReplicaConnections), maxSockets)
	if b.BodiesInFlight < b.Body {
		d.fail(d.either("bounds.bodies_in_flight", "bounds.body"),
			"bodies_in_flight is below bounds.body: raise it, or lower bounds.body, so that one request fits")
	}
}

func (d *document) checkTimeouts(c *Config) {
	t := c.Timeouts
	for path, wait := range map[string]time.Duration{
		"timeouts.header": t.Header, "timeouts.body": t.Body, "timeouts.keep_alive": t.KeepAlive,
		"timeouts.write": t.Write, "timeouts.connect": t.Connect, "timeouts.first_byte": t.FirstByte,
		"timeouts.idle": t.Idle, "timeouts.total": t.Total, "timeouts.replica_keep_alive": t.ReplicaKeepAlive,
		"redis.connect_timeout": c.Redis.ConnectTimeout, "redis.timeout": c.Redis.Timeout,
	} {
		d.duration(path, wait, time.Millisecond)
	}
	d.duration("shutdown.lame_duck", c.Shutdown.LameDuck, 0)
	d.duration("shutdown.drain", c.Shutdown.Drain, 0)
}

func (d *document) duration(path string, value, least time.Duration) {
	if value < least || value > longestWait {
		d.fail(path, "%s is out of range: write a duration from %s to %s", d.quoted(path), FormatDuration(least), "24h")
	}
}

func (d *document) size(path string, value, least, most Size) {
	if value < least || value > most {
		d.fail(path, "%s is out of range: write a size from %v to %v", d.quoted(path), least, most)
	}
}

// upTo wants a number from 1 to most. It also speaks up when the file does not give the field at all, and the
// default is out of range: that is how a number is required.
func (d *document) upTo(path string, value, most int64) {
	switch {
	case value >= 1 && value <= most:
	case !d.has(path):
		d.fail(path, "is required: write a whole number from 1 to %d", most)
	default:
		d.fail(path, "%s is out of range: write a whole number from 1 to %d", d.quoted(path), most)
	}
}

func (d *document) oneOf(path, value string, known []string) {
	if !slices.Contains(known, value) {
		d.fail(path, "%s is not known: %s", d.quoted(path), hint(value, known))
	}
}

// given returns the path of the secret, or of its file when that is given.
func (d *document) given(path string) string { return d.either(path+"_file", path) }

// either returns the first path if the file gives it, else the second.
func (d *document) either(first, second string) string {
	if d.has(first) {
		return first
	}
	return second
}

// certificates checks that data is PEM with at least one certificate.
func (d *document) certificates(path string, data []byte) {
	if !x509.NewCertPool().AppendCertsFromPEM(data) {
		d.fail(path, "%s holds no certificate: give a file in PEM form", d.quoted(path))
	}
}
