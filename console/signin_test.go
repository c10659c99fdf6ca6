package console

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"mete/config"
)

func TestTheFirstAdminMustChangeTheOneTimePassword(t *testing.T) {
	r := newRig(t, nil)
	password, err := r.FirstAdmin(t.Context())
	if err != nil || len(password) < 16 {
		t.Fatalf("%q, %v", password, err)
	}
	if again, err := r.FirstAdmin(t.Context()); again != "" || err != nil {
		t.Fatalf("a second first admin: %q, %v", again, err)
	}
	b := r.browser()
	b.get("/login").post("/login", "owner", "admin", "password", password).want(200, "Your password was made for you")
	b.get("/admin/people").want(200, "Your password was made for you")
	b.post("/account/password", "old", password, "new", "short", "again", "short").want(400, "at least 12 characters")
	b.post("/account/password", "old", password, "new", goodPassword, "again", goodPassword+"x").want(400, "differ")
	b.post("/account/password", "old", password, "new", "my admin password", "again", "my admin password").want(400, "name of the account")
	b.post("/account/password", "old", "another", "new", goodPassword, "again", goodPassword).want(403, "present password is another")
	b.post("/account/password", "old", password, "new", goodPassword, "again", goodPassword).want(200, "Your password is changed")
	b.get("/admin/people").want(200, "Add an account")
	r.browser().get("/login").post("/login", "owner", "admin", "password", password).want(403, "do not belong together")
}

func TestWrongPasswordsAreAlikeAndThrottled(t *testing.T) {
	r := newRig(t, nil)
	r.signedIn("ann", false)
	b := r.browser()
	b.headers["X-Forwarded-For"] = "203.0.113.9" // behind a trusted proxy
	unknown := b.get("/login").post("/login", "owner", "nobody", "password", "x").want(403).page
	known := b.get("/login").post("/login", "owner", "ann", "password", "x").want(403).page
	blank := func(page string) string {
		return tokens.ReplaceAllString(strings.NewReplacer("nobody", "", "ann", "").Replace(page), "")
	}
	if blank(unknown) != blank(known) {
		t.Errorf("the answers differ:\n%s\n%s", unknown, known)
	}
	// A right password in between resets nothing.
	b.get("/login").post("/login", "owner", "ann", "password", goodPassword).want(200, "Keys")
	b.post("/logout").want(200)
	for range signInsFrom - 2 {
		b.get("/login").post("/login", "owner", "ann", "password", "x").want(403)
	}
	b.get("/login").post("/login", "owner", "ann", "password", goodPassword).want(429, "Too many attempts")
	if b.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	other := r.browser()
	other.headers["X-Forwarded-For"] = "203.0.113.10"
	other.get("/login").post("/login", "owner", "ann", "password", goodPassword).want(200, "Keys")
}

func TestSessions(t *testing.T) {
	r := newRig(t, nil)
	b := r.signedIn("ann", false)
	ctx := t.Context()
	names := r.rdb.Keys(ctx, "mete:console:session:*").Val()
	if len(names) != 1 {
		t.Fatalf("sessions: %v", names)
	}
	cookie := ""
	for _, c := range b.http.Jar.Cookies(mustURL(t, r.server.URL)) {
		if c.Name == "mete-session" {
			cookie = c.Value
		}
	}
	if cookie == "" || strings.Contains(names[0]+r.rdb.Get(ctx, names[0]).Val(), cookie) {
		t.Fatal("the store holds the cookie")
	}
	// A session that was planted in the store is none.
	planted := strings.Replace(r.rdb.Get(ctx, names[0]).Val(), `"owner":"ann"`, `"owner":"admin"`, 1)
	kept := r.rdb.Get(ctx, names[0]).Val()
	r.rdb.Set(ctx, names[0], planted, time.Hour)
	b.get("/keys").want(200, "Sign in")
	r.rdb.Set(ctx, names[0], kept, time.Hour)
	b.get("/keys").want(200, "Keys")

	second := r.signIn("ann")
	second.get("/account").post("/account/sessions").want(200, "other sessions are over")
	second.get("/keys").want(200, "Base URL")
	b.get("/keys").want(200, "Sign in")

	second.post("/logout").want(200, "Sign in")
	second.get("/keys").want(200, "Sign in")

	// A new session has a new id, whatever the browser came with.
	fixed := r.browser()
	fixed.http.Jar.SetCookies(mustURL(t, r.server.URL), []*http.Cookie{{Name: "mete-session", Value: "chosen-by-somebody-else", Path: "/"}})
	fixed.get("/login").post("/login", "owner", "ann", "password", goodPassword).want(200)
	for _, c := range fixed.http.Jar.Cookies(mustURL(t, r.server.URL)) {
		if c.Value == "chosen-by-somebody-else" {
			t.Error("the session kept the id that it came with")
		}
	}
}

func TestSessionsEnd(t *testing.T) {
	r := newRig(t, nil)
	b := r.signedIn("ann", false)
	name := r.rdb.Keys(t.Context(), "mete:console:session:*").Val()[0]
	for what, change := range map[string]func(*session){
		"without a request for too long": func(s *session) { s.Seen = time.Now().Add(-13 * time.Hour) },
		"after their life":               func(s *session) { s.Created = time.Now().Add(-8 * 24 * time.Hour) },
	} {
		s := session{}
		if raw, err := r.sessions.get(t.Context(), name, &s); raw == "" || err != nil {
			t.Fatal("no session")
		}
		kept := s
		change(&s)
		if err := r.sessions.put(t.Context(), name, s, time.Hour); err != nil {
			t.Fatal(err)
		}
		if b.get("/keys"); !strings.Contains(b.page, "Sign in") {
			t.Errorf("%s: the session goes on", what)
		}
		_ = r.sessions.put(t.Context(), name, kept, time.Hour)
	}
	if b.get("/keys"); b.at != "/keys" {
		t.Error("a good session ended")
	}
}

func TestCookiesAreOfThisHostAlone(t *testing.T) {
	r := newRig(t, func(o *Options) { o.URL = "https://login.example.com" })
	b := r.browser()
	b.get("/login").want(200)
	if c := b.header.Get("Set-Cookie"); !strings.HasPrefix(c, "__Host-mete-visit=") || !strings.Contains(c, "; Path=/; ") ||
		!strings.Contains(c, "HttpOnly; Secure; SameSite=Lax") || strings.Contains(c, "Domain") {
		t.Errorf("cookie %q", c)
	}
	plain := newRig(t, nil).browser().get("/login").header.Get("Set-Cookie")
	if strings.Contains(plain, "Secure") || !strings.HasPrefix(plain, "mete-visit=") || !strings.Contains(plain, "HttpOnly; SameSite=Lax") {
		t.Errorf("on loopback: %q", plain)
	}
}

func TestAfterSignInOnlyPagesOfOursFollow(t *testing.T) {
	for next, want := range map[string]string{
		"/authorize?user_code=BCDF-GHJK": "/authorize?user_code=BCDF-GHJK", "/admin/usage": "/admin/usage",
		"": "/keys", "https://evil.example": "/keys", "//evil.example": "/keys", "/\\evil.example": "/keys", "keys": "/keys",
		"javascript:alert(1)": "/keys", "/\t/evil.example": "/keys", "http:/evil": "/keys", "/keys\r\nX: y": "/keys",
	} {
		if got := localPage(next); got != want {
			t.Errorf("%q leads to %q", next, got)
		}
	}
}

func FuzzLocalPage(f *testing.F) {
	f.Add("//evil.example")
	f.Fuzz(func(t *testing.T, next string) {
		got := localPage(next)
		if !strings.HasPrefix(got, "/") || strings.HasPrefix(got, "//") || strings.ContainsAny(got, "\\\r\n") {
			t.Fatalf("%q leads to %q", next, got)
		}
	})
}

func TestAnAuthenticatingProxyIsBelievedByItsAddress(t *testing.T) {
	header := config.Header{User: "X-Forwarded-User", Groups: "X-Forwarded-Groups", From: []string{"127.0.0.1"}}
	r := newRig(t, func(o *Options) {
		o.Settings.Local, o.Settings.Header = false, header
		o.Settings.Groups = []config.Group{{Name: "ops", Plans: []string{"gold"}, Admin: true}}
	})
	b := r.browser()
	b.get("/keys").want(200, "did not say who you are")
	b.headers["X-Forwarded-User"], b.headers["X-Forwarded-Groups"] = "Ann@Example.com", "dev, ops"
	b.get("/account").want(200, "ann@example.com", "gold, free, batch", ">admin<")
	b.headers["X-Forwarded-User"], b.headers["X-Forwarded-Groups"] = "bob", ""
	b.get("/account").want(200, "bob", ">member<")
	b.headers["X-Forwarded-User"] = "not an owner"
	b.get("/keys").want(403, "You cannot sign in")
	b.headers["X-Forwarded-User"] = ""
	b.get("/keys").want(200, "did not say who you are") // the proxy speaks for nobody now

	stranger := newRig(t, func(o *Options) {
		o.Settings.Header = header
		o.Settings.Header.From = []string{"10.0.0.5"}
	}).browser()
	stranger.headers["X-Forwarded-User"], stranger.headers["X-Forwarded-For"] = "ann", "10.0.0.5"
	stranger.get("/keys").want(200, "Sign in")
}

func TestNamesBelongToTheWayTheyCameBy(t *testing.T) {
	r := newRig(t, nil)
	r.signedIn("ann", true)
	v := &visit{Console: r.Console, r: must(http.NewRequestWithContext(t.Context(), "GET", "/", nil))}
	for what, id := range map[string]identity{
		"a provider's ann is not the local one": {owner: "ann", way: "oidc", subject: "https://id ann"},
		"nor is the proxy's":                    {owner: "ann", way: "header"},
	} {
		if _, err := v.meet(id); err != errOtherWay {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := v.meet(identity{owner: "bob", way: "oidc", subject: "https://id 1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.meet(identity{owner: "bob", way: "oidc", subject: "https://id 2"}); err != errOtherWay {
		t.Errorf("another subject of the provider came in as bob: %v", err)
	}
}

func TestPasswordHashes(t *testing.T) {
	h := newHasher()
	hash, err := h.hash(t.Context(), "secret words")
	if err != nil || !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Fatalf("%q, %v", hash, err)
	}
	for password, want := range map[string]bool{"secret words": true, "secret word": false, "": false} {
		if got, err := h.matches(t.Context(), password, hash); got != want || err != nil {
			t.Errorf("%q: %v, %v", password, got, err)
		}
	}
	if got, err := h.matches(t.Context(), "", ""); got || err != nil {
		t.Errorf("an account that is not there: %v, %v", got, err)
	}
}

func FuzzDecodeHash(f *testing.F) {
	f.Add(encodeHash(make([]byte, saltBytes), make([]byte, hashBytes)))
	f.Add("$argon2id$v=19$m=99999999999,t=1,p=1$AA$AA")
	f.Fuzz(func(t *testing.T, text string) {
		if _, sum, memory, passes, err := decodeHash(text); err == nil && (len(sum) != hashBytes || memory > 1<<20 || passes > 16) {
			t.Fatalf("%q was taken", text)
		}
	})
}

func BenchmarkPasswordHash(b *testing.B) {
	h := newHasher()
	for b.Loop() {
		if _, err := h.hash(b.Context(), "four plain words here"); err != nil {
			b.Fatal(err)
		}
	}
}

func TestPeopleAreDisabledAndReset(t *testing.T) {
	r := newRig(t, nil)
	admin, ann := r.signedIn("root", true), r.signedIn("ann", false)
	admin.get("/admin/people").post("/admin/people/root/disable").want(404) // nobody locks themselves out
	admin.get("/admin/people").post("/admin/people/ann/disable").want(200, "The account is disabled")
	ann.get("/keys").want(200, "Sign in")
	ann.post("/login", "owner", "ann", "password", goodPassword).want(403)
	if err := r.Allowed(t.Context(), "ann", "free"); err != ErrNotAllowed {
		t.Errorf("a disabled person may have keys: %v", err)
	}
	admin.get("/admin/people").post("/admin/people/ann/enable").want(200)
	if err := r.Allowed(t.Context(), "ann", "free"); err != nil {
		t.Error(err)
	}
	admin.get("/admin/people").post("/admin/people/ann/reset").want(200, "One-time password of ann")
	r.browser().get("/login").post("/login", "owner", "ann", "password", goodPassword).want(403)
	admin.get("/admin/people").post("/admin/people", "owner", "Bob").want(200, "One-time password of bob")
	admin.get("/admin/people").post("/admin/people", "owner", "bob").want(409, "There is a person of that name")
	admin.get("/admin/people").post("/admin/people", "owner", "b o b").want(400)
	for plan, want := range map[string]error{"free": nil, "gold": ErrNotAllowed} {
		if err := r.Allowed(t.Context(), "bob", plan); err != want {
			t.Errorf("bob and %s: %v", plan, err)
		}
	}
	if err := r.Allowed(t.Context(), "nobody", "free"); err != ErrNotAllowed {
		t.Error(err)
	}
}
