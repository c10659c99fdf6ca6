package console

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"mete/config"
)

// directory is the provider's, with groups and with addresses that may be
// unverified.
type directory struct {
	*storage.Storage
	mu         sync.Mutex
	unverified bool
}

func (d *directory) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, token op.IDTokenRequest, scopes []string) error {
	err := d.Storage.SetUserinfoFromRequest(ctx, info, token, scopes)
	d.add(info)
	return err
}

func (d *directory) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, tokenID, subject, origin string) error {
	err := d.Storage.SetUserinfoFromToken(ctx, info, tokenID, subject, origin)
	d.add(info)
	return err
}

func (d *directory) add(info *oidc.UserInfo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	info.AppendClaims("groups", []string{"ml-team", "ops"})
	if d.unverified {
		info.EmailVerified = false
	}
}

// startProvider runs a real OpenID provider. callbacks are those of the console.
func startProvider(t testing.TB, callback string) (issuer string, d *directory) {
	t.Helper()
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	client := storage.NativeClient("console", callback)
	d = &directory{Storage: storage.NewStorageWithClients(storage.NewUserStore(server.URL), map[string]*storage.Client{"console": client})}
	previous := slog.Default()
	handler = exampleop.SetupServer(server.URL, d, slog.New(slog.NewTextHandler(io.Discard, nil)), false)
	slog.SetDefault(previous)
	return server.URL, d
}

// oidcRig is a console that people enter through a provider only.
func oidcRig(t testing.TB) (*rig, *directory) {
	t.Helper()
	var d *directory
	r := newRig(t, func(o *Options) {
		var issuer string
		issuer, d = startProvider(t, o.URL+"/login/callback")
		o.Settings.Local = false
		o.Settings.OIDC = config.Default().Console.OIDC
		o.Settings.OIDC.Issuer, o.Settings.OIDC.ClientID = issuer, "console"
		o.Settings.Groups = []config.Group{{Name: "ml-team", Plans: []string{"gold"}}, {Name: "ops", Admin: true}}
	})
	t.Cleanup(r.provider.client.CloseIdleConnections)
	return r, d
}

// follow goes where the console sends the browser, and signs in there.
func (b *browser) follow(next string) (authorize, callback *url.URL) {
	b.r.t.Helper()
	b.http.CheckRedirect = func(q *http.Request, _ []*http.Request) error {
		switch {
		case q.URL.Query().Has("client_id"):
			authorize = q.URL
		case strings.HasSuffix(q.URL.Path, "/login/callback"):
			callback = q.URL
			return http.ErrUseLastResponse
		}
		return nil
	}
	b.get("/login").want(200, "Single sign-on")
	b.get("/login/oidc?next=" + url.QueryEscape(next)).want(200)
	id := between(b.page, `name="id" value="`, `"`)
	host := b.host()
	form := url.Values{"username": {"test-user@127.0.0.1"}, "password": {"verysecure"}, "id": {id}}
	answer, err := b.http.PostForm(host+"/login/username", form)
	if err != nil {
		b.r.t.Fatal(err)
	}
	_ = answer.Body.Close()
	b.http.CheckRedirect = nil
	if authorize == nil || callback == nil {
		b.r.t.Fatalf("went to %v and came back by %v", authorize, callback)
	}
	return authorize, callback
}

func (b *browser) host() string { return strings.TrimSuffix(b.r.Settings.OIDC.Issuer, "/") }

func between(text, before, after string) string {
	_, rest, _ := strings.Cut(text, before)
	found, _, _ := strings.Cut(rest, after)
	return found
}

func TestSignInThroughARealProvider(t *testing.T) {
	r, _ := oidcRig(t)
	b := r.browser()
	authorize, callback := b.follow("/account")
	query := authorize.Query()
	if query.Get("code_challenge_method") != "S256" || query.Get("code_challenge") == "" || query.Get("nonce") == "" || query.Get("state") == "" || query.Get("scope") != "openid email profile" {
		t.Errorf("asked the provider %v", query)
	}
	b.get(callback.RequestURI()).want(200, "test-user@zitadel.ch", ">admin<", "gold, free, batch", "ml-team, ops", "single sign-on")
	if b.at != "/account" {
		t.Errorf("came out at %s", b.at)
	}
	person, err := r.people.get(t.Context(), "test-user@zitadel.ch")
	if err != nil || !strings.HasSuffix(person.Subject, " id1") {
		t.Errorf("%+v, %v", person, err)
	}
	if err := r.Allowed(t.Context(), "test-user@zitadel.ch", "gold"); err != nil {
		t.Error(err)
	}
	// The same answer of the provider does not let anybody in again.
	b.get(callback.RequestURI()).want(403, "did not come from this page")
}

func TestTheProvidersAnswerMustBeOurs(t *testing.T) {
	r, d := oidcRig(t)
	b := r.browser()
	_, callback := b.follow("/keys")
	// Somebody else's browser, which went to the provider itself or not.
	r.browser().get(callback.RequestURI()).want(403, "did not come from this page")
	other := r.browser()
	_, _ = other.follow("/keys")
	other.get(callback.RequestURI()).want(403, "did not come from this page")

	query := callback.Query()
	query.Set("state", "x")
	_, _ = b.follow("/keys")
	b.get("/login/callback?"+query.Encode()).want(403, "did not come from this page")

	_, callback = b.follow("/keys")
	query = callback.Query()
	query.Set("code", "made-up")
	b.get("/login/callback?"+query.Encode()).want(403, "could not be checked")

	_, callback = b.follow("/keys")
	query = url.Values{"state": {callback.Query().Get("state")}, "error": {"access_denied"}}
	b.get("/login/callback?"+query.Encode()).want(403, "did not let you in")

	d.mu.Lock()
	d.unverified = true
	d.mu.Unlock()
	_, callback = b.follow("/keys")
	b.get(callback.RequestURI()).want(403, "email address is not verified")
	if everybody, err := r.people.all(t.Context()); len(everybody) != 0 || err != nil {
		t.Errorf("somebody came in: %v, %v", everybody, err)
	}
}

// The code that a browser brings back is worth nothing with another's verifier.
func TestPKCEBindsTheCodeToTheTrip(t *testing.T) {
	r, _ := oidcRig(t)
	_, callback := r.browser().follow("/keys")
	_, err := r.provider.identify(t.Context(), callback.Query().Get("code"), trip{Verifier: "another-verifier-of-43-characters-or-more-than-that", Nonce: "x"})
	if err == nil || !strings.Contains(err.Error(), "invalid_grant") {
		t.Errorf("the exchange gave %v", err)
	}
}

func TestTheNonceMustBeOurs(t *testing.T) {
	r, _ := oidcRig(t)
	b := r.browser()
	_, callback := b.follow("/keys")
	v := &visit{Console: r.Console, r: must(http.NewRequestWithContext(t.Context(), "GET", r.server.URL, nil))}
	for _, c := range b.http.Jar.Cookies(mustURL(t, r.server.URL)) {
		v.r.AddCookie(c)
	}
	mine, ok := v.trip()
	if !ok {
		t.Fatal("no trip")
	}
	mine.Nonce = "another"
	if _, err := r.provider.identify(t.Context(), callback.Query().Get("code"), mine); err == nil || !strings.Contains(err.Error(), "nonce") {
		t.Errorf("the ID token was taken: %v", err)
	}
}

func TestAProviderThatIsAwayIsAFaultOfOurs(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Settings.OIDC = config.Default().Console.OIDC
		o.Settings.OIDC.Issuer, o.Settings.OIDC.ClientID = "http://127.0.0.1:1", "console"
	})
	r.browser().get("/login/oidc").want(503, "The service cannot say")
}
