package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Console is the web pages. It is safe for use from many goroutines.
type Console struct {
	Options
	origin   string // of our own pages: scheme and host
	prefix   string // path below which the pages lie, without a slash at the end
	cookies  cookies
	people   *people
	sessions *sessions
	audit    *Audit
	hasher   *hasher
	provider *provider // nil: no OIDC
	header   *headerSignIn
	views    *views
}

// New makes the console. It does not call Redis, nor the OIDC provider.
func New(o Options) (*Console, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("console: %q is not its URL", o.URL)
	}
	store := records{rdb: o.Redis, seals: o.Seals}
	prefix := o.Service + ":console:"
	c := &Console{
		Options: o, origin: u.Scheme + "://" + u.Host, prefix: strings.TrimSuffix(u.Path, "/"),
		cookies: cookies{service: o.Service, secure: u.Scheme == "https"},
		people:  &people{records: store, prefix: prefix, settings: o.Settings, known: o.Plans},
		audit:   NewAudit(o.Redis, o.Service, o.Settings.AuditEntries),
		hasher:  newHasher(),
	}
	c.sessions = &sessions{
		records: store, prefix: prefix, cookies: c.cookies,
		idle: min(o.Settings.SessionIdle, o.Settings.SessionLife), life: o.Settings.SessionLife,
	}
	c.provider = newProvider(o.Settings.OIDC, c.origin+c.path("/login/callback"))
	c.header = newHeaderSignIn(o.Settings.Header)
	c.views, err = newViews(c)
	return c, err
}

// FirstAdminName is the owner of the account that FirstAdmin makes.
const FirstAdminName = "admin"

// FirstAdmin makes the first local account, with a password that must be
// changed at the first sign-in. password is empty if there was an account, on
// whichever gateway, or if local accounts are off.
func (c *Console) FirstAdmin(ctx context.Context) (password string, err error) {
	if !c.Settings.Local {
		return "", nil
	}
	everybody, err := c.people.all(ctx)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(everybody, func(p Person) bool { return p.Way == "local" }) {
		return "", nil
	}
	password, err = c.newAccount(ctx, FirstAdminName, true)
	if errors.Is(err, errTaken) {
		return "", nil
	}
	return password, err
}

var errTaken = errors.New("there is a person of that name already")

// newAccount makes a local account whose password somebody else knows.
func (c *Console) newAccount(ctx context.Context, owner string, admin bool) (password string, err error) {
	password = newPassword()
	hash, err := c.hasher.hash(ctx, password)
	if err != nil {
		return "", err
	}
	p := Person{Owner: owner, Way: "local", Admin: admin, Password: hash, MustChange: true, Created: time.Now().UTC()}
	made, err := c.people.create(ctx, p)
	if err == nil && !made {
		err = errTaken
	}
	if err != nil {
		return "", err
	}
	c.Record(ctx, Event{What: "account created", Who: "console", Owner: owner})
	return password, nil
}

// Allowed says whether owner may have a key of the plan, as things stand now:
// nil, ErrNotAllowed, or that the store cannot say.
func (c *Console) Allowed(ctx context.Context, owner, plan string) error {
	person, err := c.people.get(ctx, owner)
	if errors.Is(err, errNoPerson) {
		return ErrNotAllowed
	}
	if err != nil {
		return err
	}
	if person.Disabled || !slices.Contains(c.people.plans(person), plan) {
		return ErrNotAllowed
	}
	return nil
}

// Record writes an event to the audit log. What cannot be written there goes to
// the gateway's own log.
func (c *Console) Record(ctx context.Context, e Event) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := c.audit.Record(ctx, e); err != nil {
		c.Log.Warn().Err(err).Str("what", e.What).Str("who", e.Who).Str("owner", e.Owner).
			Str("key", e.KeyID).Str("remote", e.Address).Msg("event is not in the audit log")
	}
}

// path is where a page of the console lies as browsers see it.
func (c *Console) path(page string) string { return c.prefix + page }

// Handler serves the pages, whether the proxy in front cuts the path off or not.
func (c *Console) Handler() http.Handler {
	mux := c.routes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.setHeaders(w.Header())
		if rest, found := strings.CutPrefix(r.URL.Path, c.prefix); c.prefix != "" && found && (rest == "" || rest[0] == '/') {
			r.URL.Path, r.URL.RawPath = "/"+strings.TrimPrefix(rest, "/"), ""
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		mux.ServeHTTP(w, r)
	})
}
