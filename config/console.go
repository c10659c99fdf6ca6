package config

import (
	"net"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"
)

// Console says who may sign in to the web pages, and what they may do there.
type Console struct {
	// APIURL is the base URL of the API, with its /v1, that the pages tell people
	// to use. Default: empty, which means http:// and listen.api.
	APIURL string `yaml:"api_url"`
	// Local switches accounts on that the console keeps itself. The first, an
	// admin, is made when there is none, and its password printed once.
	// Default: true.
	Local bool `yaml:"local"`
	// OIDC is the provider at which people sign in.
	OIDC OIDC `yaml:"oidc"`
	// Header lets an authenticating proxy in front of the console say who it is.
	Header Header `yaml:"header"`
	// Plans are those that everybody may choose for their keys, the first where
	// nothing is chosen. Default: [], only what groups give.
	Plans []string `yaml:"plans"`
	// Admins are owners who are admins whatever their groups. Default: [].
	Admins []string `yaml:"admins"`
	// Groups say what the groups that OIDC or the header names may do.
	// Default: [].
	Groups []Group `yaml:"groups"`
	// SessionIdle is how long a session lasts without a request. 1m to 30d.
	// Duration. Default: 12h.
	SessionIdle time.Duration `yaml:"session_idle"`
	// SessionLife is how long a session lasts at the most. 1m to 90d. Duration.
	// Default: 7d.
	SessionLife time.Duration `yaml:"session_life"`
	// AuditEntries is how many events the audit log keeps. Count.
	// Default: 20000.
	AuditEntries int `yaml:"audit_entries"`
}

// Group is what the members of one group may do.
type Group struct {
	// Name is the group's name, as OIDC or the header gives it. Required, and
	// unlike every other name.
	Name string `yaml:"name"`
	// Plans are further plans for the keys of its members, before those of
	// console.plans. Default: [].
	Plans []string `yaml:"plans"`
	// Admin makes its members admins. Default: false.
	Admin bool `yaml:"admin"`
}

// OIDC is an OpenID Connect provider.
type OIDC struct {
	// Issuer is its URL, below which /.well-known/openid-configuration lies.
	// Default: empty, OIDC is off.
	Issuer string `yaml:"issuer"`
	// ClientID is what the provider calls the console. Required with an issuer.
	// Its redirect URI there is {auth_url}/login/callback.
	ClientID string `yaml:"client_id"`
	// ClientSecret is the client's secret. Default: empty, a public client,
	// which PKCE protects alone.
	ClientSecret Secret `yaml:"client_secret"`
	// ClientSecretFile is a file that holds client_secret.
	ClientSecretFile string `yaml:"client_secret_file"`
	// Scopes are asked for beside openid. Default: [email, profile].
	Scopes []string `yaml:"scopes"`
	// OwnerClaim is the claim whose value is the owner of a person's keys. An
	// email must be verified. Default: email.
	OwnerClaim string `yaml:"owner_claim"`
	// GroupsClaim is the claim that lists a person's groups. Default: groups.
	GroupsClaim string `yaml:"groups_claim"`
	// Label stands on the button. Default: Single sign-on.
	Label string `yaml:"label"`
}

// Header names what an authenticating proxy sets.
type Header struct {
	// User is the header with the owner's name. Default: empty, off.
	User string `yaml:"user"`
	// Groups is the header with the groups, separated by commas. Default: empty.
	Groups string `yaml:"groups"`
	// From are the addresses of the proxies that may set them, as 10.0.0.5 or
	// 10.0.0.0/24. Required with user.
	From []string `yaml:"from"`
}

func defaultConsole() Console {
	return Console{
		Local: true, SessionIdle: 12 * time.Hour, SessionLife: 7 * day, AuditEntries: 20000,
		OIDC: OIDC{Scopes: []string{"email", "profile"}, OwnerClaim: "email", GroupsClaim: "groups", Label: "Single sign-on"},
	}
}

var (
	headerName = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	claimName  = regexp.MustCompile(`^[^\s"]{1,128}$`)
	ownerName  = regexp.MustCompile(`^[A-Za-z0-9._@+-]{1,64}$`)
)

func (d *document) checkConsole(c *Config) {
	d.checkAuthURL(c)
	d.prefixes("trusted_proxies", c.TrustedProxies)
	v := c.Console
	if u, err := url.Parse(v.APIURL); v.APIURL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || !strings.HasSuffix(u.Path, "/v1")) {
		d.fail("console.api_url", "%s is not the base URL of the API: write it like https://api.example.com/v1", d.quoted("console.api_url"))
	}
	d.checkOIDC(v.OIDC)
	d.checkHeader(v.Header)
	d.checkGroups(c)
	d.planNames("console.plans", v.Plans, c.PlanNames())
	for i, owner := range v.Admins {
		d.named(index("console.admins", i), owner, ownerName, "up to 64 letters, digits and . _ @ + -")
	}
	d.span("console.session_idle", v.SessionIdle, time.Minute, 30*day)
	d.span("console.session_life", v.SessionLife, time.Minute, 90*day)
	d.upTo("console.audit_entries", int64(v.AuditEntries), 10_000_000)
	if c.Listen.Console != "" {
		d.checkWaysIn(c)
		d.apart("listen.api", c.Listen.API, c.Listen.Console)
		d.apart("listen.admin", c.Listen.Admin, c.Listen.Console)
	}
}

func (d *document) checkWaysIn(c *Config) {
	v := c.Console
	if !v.Local && v.OIDC.Issuer == "" && v.Header.User == "" {
		d.fail("console", "lets nobody in: give console.oidc or console.header, or remove local: false")
	}
	if len(c.Keystore.Peppers) == 0 && c.Redis.Kind() != RedisEmbedded {
		d.fail("keystore.peppers", "is needed for the console: add {version: 1, secret_file: FILE}, or remove listen.console")
	}
}

// checkAuthURL sees to it that no cookie and no code goes over a network in
// the clear.
func (d *document) checkAuthURL(c *Config) {
	host, _, ok := d.optionalAddress("listen.console", c.Listen.Console)
	if c.AuthURL == "" {
		if ok && !loopback(host) {
			d.fail("listen.console", "%s can be reached from elsewhere: give auth_url, the https:// URL of the proxy in front of it", d.quoted("listen.console"))
		}
		return
	}
	u, err := url.Parse(c.AuthURL)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http":
		d.fail("auth_url", "%s is not the URL of the console: write https://host, with a path if it lies below one", d.quoted("auth_url"))
	case u.Scheme == "http" && !loopback(u.Hostname()):
		d.fail("auth_url", "%s is not safe: people sign in there, so write https", d.quoted("auth_url"))
	case u.Path != "" && (u.Path == "/" || path.Clean(u.Path) != u.Path || u.EscapedPath() != u.Path):
		d.fail("auth_url", "%s has a path that ends in a slash or is not plain: write it like /console", d.quoted("auth_url"))
	}
}

// apart sees to it that the console has a port of its own.
func (d *document) apart(path, other, console string) {
	host, port, err := net.SplitHostPort(other)
	consoleHost, consolePort, err2 := net.SplitHostPort(console)
	if err != nil || err2 != nil || port != consolePort || port == "0" {
		return
	}
	if host == consoleHost || wildcard(host) || wildcard(consoleHost) {
		d.fail("listen.console", "listen.console and %s are the same address: give each a port of its own", path)
	}
}

func (d *document) optionalAddress(path, address string) (host, port string, ok bool) {
	if address == "" {
		return "", "", false
	}
	return d.address(path, address)
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

func (d *document) checkOIDC(o OIDC) {
	if o.Issuer == "" {
		for _, name := range []string{"client_id", "client_secret", "client_secret_file"} {
			if d.has("console.oidc." + name) {
				d.fail("console.oidc."+name, "is of no use without an issuer: add issuer, or remove the line")
			}
		}
		return
	}
	u, err := url.Parse(o.Issuer)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		d.fail("console.oidc.issuer", "%s is not an issuer: write its https:// URL", d.quoted("console.oidc.issuer"))
	}
	if o.ClientID == "" {
		d.fail("console.oidc.client_id", "is required with an issuer: write what the provider calls the console")
	}
	d.namedIfGiven("console.oidc.owner_claim", o.OwnerClaim, claimName, "the name of a claim, like email")
	d.namedIfGiven("console.oidc.groups_claim", o.GroupsClaim, claimName, "the name of a claim, like groups")
}

func (d *document) checkHeader(h Header) {
	d.prefixes("console.header.from", h.From)
	if h.User == "" {
		for _, name := range []string{"groups", "from"} {
			if d.has("console.header." + name) {
				d.fail("console.header."+name, "is of no use without a header for the user: add user, or remove the line")
			}
		}
		return
	}
	d.named("console.header.user", h.User, headerName, "the name of a header, like X-Forwarded-User")
	d.namedIfGiven("console.header.groups", h.Groups, headerName, "the name of a header, like X-Forwarded-Groups")
	if len(h.From) == 0 {
		d.fail("console.header", "trusts everybody: add from, the addresses of the proxies that set the header")
	}
}

func (d *document) namedIfGiven(path, name string, pattern *regexp.Regexp, rule string) {
	if d.has(path) {
		d.named(path, name, pattern, rule)
	}
}

func (d *document) checkGroups(c *Config) {
	seen := map[string]int{}
	for i, group := range c.Console.Groups {
		path := index("console.groups", i)
		if strings.TrimSpace(group.Name) == "" {
			d.fail(path+".name", "is required: write the group's name as the provider gives it")
		}
		unique(d, seen, group.Name, i, path+".name", "console.groups")
		d.planNames(path+".plans", group.Plans, c.PlanNames())
	}
}
