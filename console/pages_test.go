package console

import (
	"encoding/csv"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func mustURL(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

var secrets = regexp.MustCompile(`sk-mete-[0-9a-f]{40}`)

func TestAKeysWholeLife(t *testing.T) {
	r := newRig(t, nil)
	b := r.signedIn("ann", false)
	b.get("/keys").want(200, "You have no key yet")
	b.get("/keys/new").want(200)
	once := regexp.MustCompile(`name="once" value="([^"]+)"`).FindStringSubmatch(b.page)[1]
	b.post("/keys", "name", "laptop", "plan", "free", "life", "90d", "once", once).want(200, "Copy it now", "METE_API_KEY", "openai", "curl")
	secret := secrets.FindString(b.page)
	key := r.only("ann")
	if secret == "" || key.Name != "laptop" || key.Plan != "free" || !strings.HasSuffix(secret, key.Last4) || time.Until(key.Expires) < 89*24*time.Hour {
		t.Fatalf("%+v", key)
	}
	// Reloading the page that shows a key makes no other.
	b.post("/keys", "name", "laptop", "plan", "free", "life", "90d", "once", once).want(200, "That form was sent before", "laptop")
	if strings.Contains(b.page, secret) {
		t.Error("the key is shown again")
	}
	r.only("ann")
	b.get("/keys/new").post("/keys", "name", "x", "plan", "gold", "life", "90d", "once", "1").want(400, "Choose a plan")
	b.post("/keys", "name", "x", "plan", "free", "life", "9000d", "once", "2").want(400)
	b.post("/keys", "name", "", "plan", "free", "life", "0", "once", "3").want(400, "must have 1 to 64 bytes")
	b.post("/keys", "name", "my "+secret, "plan", "free", "life", "0", "once", "4").want(400, "looks like a key")

	page := "/keys/" + key.ID
	b.get(page).want(200, "laptop", "Revoke")
	b.post(page+"/rename", "name", "desk").want(200, "The key has a new name", "desk")
	b.post(page+"/plan", "plan", "gold").want(404) // for admins
	b.get(page).post(page+"/rotate", "overlap", "1h").want(200, "works for 1 hour more at most")
	if next := secrets.FindString(b.page); next == "" || next == secret {
		t.Error("rotation gave no new key")
	}
	b.get(page).post(page+"/revoke").want(200, "The key is revoked", "Revoked and expired keys (1)")
	if got := must(r.keys.Get(t.Context(), key.ID)); got.State != "revoked" {
		t.Errorf("the key is %s", got.State)
	}
	var events []string
	for event, err := range r.audit.Events(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		events = append([]string{event.What}, events...)
	}
	if got := strings.Join(events, ", "); got != "signed in, key created, key renamed, key rotated, key revoked" {
		t.Errorf("audit log: %s", got)
	}
}

// only is the one key that owner has.
func (r *rig) only(owner string) Key {
	r.t.Helper()
	var found []Key
	for key, err := range r.Keys.List(r.t.Context(), owner) {
		if err != nil {
			r.t.Fatal(err)
		}
		found = append(found, key)
	}
	if len(found) != 1 {
		r.t.Fatalf("%s has %d keys", owner, len(found))
	}
	return found[0]
}

func TestMembersSeeTheirOwn(t *testing.T) {
	r := newRig(t, nil)
	ann, bob, root := r.signedIn("ann", false), r.signedIn("bob", false), r.signedIn("root", true)
	ann.get("/keys/new").post("/keys", "name", "ann's laptop", "plan", "free", "life", "0", "once", "1").want(200)
	page := "/keys/" + r.only("ann").ID
	bob.get(page).want(404)
	for _, act := range []string{"rename", "rotate", "revoke", "plan"} {
		bob.get("/keys").post(page+"/"+act, "name", "mine", "overlap", "0", "plan", "free").want(404)
	}
	for _, admin := range []string{"keys", "usage", "usage.csv", "pools", "plans", "people", "audit", "audit.csv"} {
		bob.get("/admin/" + admin).want(404)
		root.get("/admin/" + admin).want(200)
		r.browser().get("/admin/"+admin).want(200, "Sign in")
	}
	bob.get("/keys").post("/admin/people", "owner", "eve", "admin", "yes").want(404)
	bob.get("/keys").post("/admin/people/ann/disable").want(404)
	root.get(page).want(200, "ann&#39;s laptop")
	root.post(page+"/rotate", "overlap", "0").want(404) // would show an admin somebody's key
	root.get(page).post(page+"/plan", "plan", "gold").want(200, "under its new plan")
	root.get(page).post(page+"/plan", "plan", "none").want(400)
	root.get("/admin/keys?owner=ann").want(200, "gold", "1 key of 1 owner")
	root.get(page).post(page+"/revoke").want(200, "The key is revoked")
	ann.get("/keys").want(200, "Revoked and expired keys (1)")
}

// Whatever a form lacks, nothing is changed.
func TestFormsOfOthersChangeNothing(t *testing.T) {
	r := newRig(t, nil)
	b := r.signedIn("ann", false)
	b.get("/keys/new").post("/keys", "name", "laptop", "plan", "free", "life", "0", "once", "1").want(200)
	page := "/keys/" + r.only("ann").ID
	code, device := r.begin("a tool")
	for _, row := range []struct {
		name    string
		headers map[string]string
		token   string // empty: that of the page
	}{
		{"another site", map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, ""},
		{"another site in an old browser", map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": ""}, ""},
		{"a neighbour below the same domain", map[string]string{"Origin": "null", "Sec-Fetch-Site": "same-site"}, ""},
		{"a sandboxed frame", map[string]string{"Origin": "null", "Sec-Fetch-Site": "cross-site"}, ""},
		{"no origin at all", map[string]string{"Origin": "", "Sec-Fetch-Site": ""}, ""},
		{"no token", nil, "none"},
		{"a token of another session", nil, r.signedIn("eve", false).token()},
	} {
		b.headers = row.headers
		for _, target := range []string{page + "/revoke", "/logout", "/authorize", "/authorize/decide", "/account/sessions"} {
			b.page = b.r.token(b, row.token)
			b.post(target, "user_code", code, "decision", "approve", "plan", "free", "name", "x")
			if b.status != 403 || !strings.Contains(b.page, "did not come from this page") {
				t.Errorf("%s: %s gave %d", row.name, target, b.status)
			}
		}
		b.headers = nil
	}
	if r.only("ann").State != "active" || !strings.Contains(r.poll(device), "pending") {
		t.Error("something was changed")
	}
	if b.get("/keys"); b.at != "/keys" {
		t.Error("the session is over")
	}
}

// token makes a page with one form in it, whose token is given or the right one.
func (r *rig) token(b *browser, given string) string {
	if given == "" {
		headers := b.headers
		b.headers = nil
		given = b.get("/keys").token()
		b.headers = headers
	}
	if given == "none" {
		return ""
	}
	return `name="token" value="` + given + `"`
}

func TestADeviceIsApprovedOnItsOwnPageOnly(t *testing.T) {
	r := newRig(t, nil)
	code, device := r.begin("mete login on laptop")
	other, _ := r.begin("another")
	b := r.browser()
	// A link with the code leads to the sign-in, then fills in the field.
	b.get("/authorize?user_code="+code).want(200, "Sign in", `value="/authorize?user_code=`+code)
	b = r.signedIn("ann", false)
	b.get("/authorize?user_code="+code).want(200, `value="`+code+`"`, "Continue")
	if strings.Contains(b.page, "laptop") || !strings.Contains(r.poll(device), "pending") {
		t.Fatal("the link did more than fill in a field")
	}
	// The frame's token does not approve, nor does that of another code.
	b.post("/authorize/decide", "user_code", code, "decision", "approve", "plan", "free").want(403)
	b.get("/authorize").post("/authorize", "user_code", other).want(200, "another")
	b.post("/authorize/decide", "user_code", code, "decision", "approve", "plan", "free").want(403)
	if !strings.Contains(r.poll(device), "pending") {
		t.Fatal("approved by another form")
	}
	b.get("/authorize").post("/authorize", "user_code", " "+strings.ToLower(code)).want(200,
		"Approve this device?", "mete login on laptop", "203.0.113.5", "you started this yourself, just now", code, "It asked from another address than yours", "1 hour")
	b.post("/authorize/decide", "user_code", code, "decision", "approve", "plan", "gold").want(403, "Not allowed")
	b.get("/authorize").post("/authorize", "user_code", code).want(200)
	b.post("/authorize/decide", "user_code", code, "decision", "approve", "plan", "batch").want(200, "Approved")
	if got := r.poll(device); !strings.Contains(got, "access_token") || r.only("ann").Plan != "batch" {
		t.Fatal(got)
	}
	b.get("/authorize").post("/authorize", "user_code", code).want(404, "No device is waiting")
	code, device = r.begin("mete")
	b.get("/authorize").post("/authorize", "user_code", code).want(200)
	b.post("/authorize/decide", "user_code", code, "decision", "deny").want(200, "Denied")
	if got := r.poll(device); !strings.Contains(got, "access_denied") {
		t.Fatal(got)
	}
}

func TestWrongCodesAreThrottledByPersonAndAddress(t *testing.T) {
	r := newRig(t, nil)
	ann, bob := r.signedIn("ann", false), r.signedIn("bob", false)
	ann.headers["X-Forwarded-For"], bob.headers["X-Forwarded-For"] = "203.0.113.1", "203.0.113.2"
	for range 5 {
		ann.get("/authorize").post("/authorize", "user_code", "BBBB-BBBB").want(404, "No device is waiting")
	}
	ann.get("/authorize").post("/authorize", "user_code", "BBBB-BBBB").want(429, "Too many attempts")
	// Both came through the same proxy, which is trusted: one does not lock out the other.
	bob.get("/authorize").post("/authorize", "user_code", "BBBB-BBBB").want(404)
}

func TestEveryPageCarriesTheHeaders(t *testing.T) {
	r := newRig(t, nil)
	b := r.signedIn("root", true)
	b.get("/keys/new").post("/keys", "name", "k", "plan", "free", "life", "0", "once", "1").want(200)
	for _, page := range []string{
		"/login", "/keys", "/keys/new", "/keys/" + r.only("root").ID, "/authorize", "/account", "/nothing", "/assets/console.css",
		"/admin/keys", "/admin/usage", "/admin/usage.csv", "/admin/pools", "/admin/plans", "/admin/people", "/admin/audit", "/admin/audit.csv",
	} {
		b.get(page)
		csp := b.header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'", "script-src 'self';", "style-src 'self';"} {
			if !strings.Contains(csp, part) {
				t.Errorf("%s: no %s in %s", page, part, csp)
			}
		}
		if h := b.header; h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("X-Frame-Options") != "DENY" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", page, h)
		}
		if strings.Contains(b.page, " style=") || strings.Contains(b.page, "<style") || strings.Contains(b.page, "onclick") || strings.Contains(b.page, "https://") && !strings.HasPrefix(page, "/assets") {
			t.Errorf("%s holds what its own policy forbids, or a foreign address", page)
		}
	}
}

// Whatever somebody else wrote comes out as text.
func TestEchoedFieldsAreEscaped(t *testing.T) {
	const evil = `"><script>alert(1)</script>'{{.}}`
	r := newRig(t, nil)
	b := r.signedIn("root", true)
	b.get("/keys/new").post("/keys", "name", evil, "plan", "free", "life", "0", "once", "1").want(200)
	r.usage = []UsageRow{{Hour: time.Now(), Owner: "root", KeyID: r.only("root").ID, Model: evil, Requests: 1, PromptTokens: 3}}
	code, _ := r.begin(evil)
	r.Record(t.Context(), Event{What: evil, Who: evil, Owner: evil, KeyID: evil, Address: evil, Detail: evil})
	q := url.QueryEscape(evil)
	pages := []string{
		"/keys", "/keys/" + r.only("root").ID, "/admin/keys", "/admin/keys?owner=" + q, "/admin/usage?by=model", "/admin/usage?by=" + q + "&owner=" + q + "&model=" + q,
		"/admin/audit", "/admin/audit?owner=" + q + "&what=" + q + "&before=" + q, "/authorize?user_code=" + url.QueryEscape(`"><script>alert(1)</script>`), "/keys?done=" + q,
	}
	for _, page := range pages {
		if b.get(page); b.status != 200 || strings.Contains(b.page, "<script>alert") {
			t.Errorf("%s: %d, or a script", page, b.status)
		}
	}
	b.get("/authorize").post("/authorize", "user_code", code).want(200, "&lt;script&gt;")
	b.get("/authorize").post("/authorize", "user_code", evil).want(404)
	if strings.Contains(b.page, "<script>alert") {
		t.Error("the code page holds a script")
	}
	out := r.browser().get("/login?next=" + q)
	out.post("/login", "owner", evil, "password", evil, "next", evil).want(403)
	if strings.Contains(out.page, "<script>alert") {
		t.Error("the sign-in page holds a script")
	}
}

func TestTheConsoleWorksBelowAPath(t *testing.T) {
	for _, cut := range []bool{false, true} {
		r := newRig(t, func(o *Options) { o.URL += "/people/console" })
		prefix := "/people/console"
		if cut { // the proxy cuts the path off
			prefix = ""
		}
		b := r.browser()
		b.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		b.get(prefix + "/keys")
		if got := b.header.Get("Location"); got != "/people/console/login?next=%2Fkeys" {
			t.Errorf("cut %v: redirect to %q", cut, got)
		}
		b.get(prefix+"/login").want(200, `action="/people/console/login"`, `href="/people/console/assets/console.css`)
		if b.get(prefix + "/assets/console.css"); b.status != 200 {
			t.Errorf("cut %v: no style", cut)
		}
	}
}

func TestUsageAddsUp(t *testing.T) {
	r := newRig(t, nil)
	b := r.signedIn("root", true)
	now := time.Now().UTC().Truncate(time.Hour)
	r.usage = []UsageRow{
		{Hour: now, Owner: "ann", KeyID: "k_1", Model: "mete", Requests: 3, PromptTokens: 1200, CompletedTokens: 300},
		{Hour: now.Add(-time.Hour), Owner: "bob", KeyID: "k_2", Model: "mete-thinking", Requests: 1, Refused: 4, PromptTokens: 500},
		{Hour: now.Add(-50 * time.Hour), Owner: "ann", KeyID: "k_1", Model: "mete", Requests: 100, PromptTokens: 1e6},
	}
	b.get("/admin/usage").want(200, "75 %", "25 %", "1,500")
	b.get("/admin/usage?days=7&by=day").want(200, now.Add(-50*time.Hour).Format("2006-01-02"), "1,000,000")
	b.get("/admin/usage?owner=bob").want(200, "bob", "100 %")
	b.get("/admin/usage.csv?days=30&model=mete").want(200)
	lines, err := csv.NewReader(strings.NewReader(b.page)).ReadAll()
	if err != nil || len(lines) != 3 || lines[1][1] != "ann" || !strings.HasPrefix(b.header.Get("Content-Disposition"), "attachment") {
		t.Fatalf("%v, %v", lines, err)
	}
	if cell("=1+1") != "'=1+1" || cell("ann") != "ann" || cell("") != "" {
		t.Error("cells are not kept from being formulas")
	}
	b.get("/admin/pools").want(200, "1 of 2", "75 %", "breaker open", "not told")
}

func TestTheAuditLogIsBoundedAndInOrder(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Settings.AuditEntries = 120 })
	b := r.signedIn("root", true)
	for i := range 200 {
		r.Record(t.Context(), Event{What: "key created", Who: "ann", Owner: "ann", Detail: strconv.Itoa(i)})
	}
	n, last := 0, ""
	for event, err := range r.audit.Events(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1 && event.Detail != "199" {
			t.Errorf("the newest is %s", event.Detail)
		}
		last = event.Detail
	}
	if n != 120 || last != "80" {
		t.Errorf("%d events, the oldest %s", n, last)
	}
	b.get("/admin/audit?what=key+created&owner=ann").want(200, "Older events")
	next := regexp.MustCompile(`before=([0-9]+-[0-9]+)`).FindStringSubmatch(b.page)[1]
	b.get("/admin/audit?before="+next).want(200, ">149<")
	b.get("/admin/audit.csv").want(200)
	if lines, err := csv.NewReader(strings.NewReader(b.page)).ReadAll(); err != nil || len(lines) != 121 {
		t.Errorf("%d lines, %v", len(lines), err)
	}
}

func TestNumbersInWords(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1k", 1249: "1.2k", 99949: "99.9k", 99950: "100k", 999499: "999k", 999500: "1M", 35e6: "35M", 1.25e9: "1.2G"} {
		if got := short(n); got != want {
			t.Errorf("%d is %s, not %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := Commas(n); got != want {
			t.Errorf("%d is %s, not %s", n, got, want)
		}
	}
}
