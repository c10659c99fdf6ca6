package console

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"mete/auth"
	"mete/config"
	"mete/console/browsertest"
)

// seed fills a console with what a week of use leaves behind.
func (r *rig) seed() {
	r.t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	hour := time.Now().UTC().Truncate(time.Hour)
	models := []string{"mete", "mete-thinking", "mete-embed"}
	for _, k := range []struct {
		owner, name, plan string
		origin            auth.Origin
		busy              float64
	}{
		{"ann@example.com", "mete login on ann-laptop", "batch", auth.FromDevice, 0.5},
		{"ann@example.com", "nightly evaluation", "batch", auth.FromConsole, 3},
		{"ann@example.com", "notebook", "free", auth.FromConsole, 0},
		{"bo.lindqvist@example.com", "support assistant", "gold", auth.FromConsole, 8},
		{"chidi@example.com", "mete login on ws-114", "free", auth.FromDevice, 1},
		{"dana@example.com", "search index", "batch", auth.FromAPI, 5},
		{"erik@example.com", "mete login on erik-mbp", "free", auth.FromDevice, 0.4},
	} {
		_, key, err := r.keys.Create(r.t.Context(), auth.Request{Name: k.name, Owner: k.owner, Plan: k.plan, Origin: k.origin, Lifetime: 90 * 24 * time.Hour})
		if err != nil {
			r.t.Fatal(err)
		}
		if k.busy > 0 {
			r.rdb.HSet(r.t.Context(), "mete:{"+k.owner+"}:key:"+key.ID, "used", time.Now().Add(-time.Duration(random.IntN(90))*time.Minute).UnixMilli())
		}
		for back := range 24 * 7 {
			at := hour.Add(-time.Duration(back) * time.Hour)
			day := k.busy * (0.25 + max(0, 1-abs(float64(at.Hour())-13)/8)) * (0.6 + 0.8*random.Float64())
			requests := int64(day * 12)
			if requests == 0 {
				continue
			}
			r.usage = append(r.usage, UsageRow{
				Hour: at, Owner: k.owner, KeyID: key.ID, Model: models[random.IntN(2)+int(k.busy)/5%2], Requests: requests,
				Refused: requests / 40, PromptTokens: requests * (700 + random.Int64N(900)), CompletedTokens: requests * (150 + random.Int64N(300)),
			})
		}
	}
	revoked, key, err := r.keys.Create(r.t.Context(), auth.Request{Name: "old laptop", Owner: "ann@example.com", Plan: "free", Origin: auth.FromConsole})
	if err != nil || revoked == "" {
		r.t.Fatal(err)
	}
	if _, err := r.keys.Revoke(r.t.Context(), key.ID); err != nil {
		r.t.Fatal(err)
	}
	for i, e := range []Event{
		{What: "signed in", Who: "bo.lindqvist@example.com", Owner: "bo.lindqvist@example.com", Address: "203.0.113.24", Detail: "oidc"},
		{What: "key created", Who: "bo.lindqvist@example.com", Owner: "bo.lindqvist@example.com", KeyID: key.ID, Address: "203.0.113.24", Detail: "plan gold"},
		{What: "sign-in refused", Who: "admin", Owner: "admin", Address: "198.51.100.77", Detail: "wrong name or password"},
		{What: "device approved", Who: "chidi@example.com", Owner: "chidi@example.com", Address: "203.0.113.61", Detail: "device mete login on ws-114, plan free"},
		{What: "key created", Who: "chidi@example.com", Owner: "chidi@example.com", KeyID: key.ID, Address: "203.0.113.61", Detail: "device mete login on ws-114, plan free"},
		{What: "key revoked", Who: "ann@example.com", Owner: "ann@example.com", KeyID: key.ID, Address: "203.0.113.9"},
	} {
		e.Time = time.Now().Add(time.Duration(i) * time.Minute)
		r.Record(r.t.Context(), e)
	}
	for i, owner := range []string{"bo.lindqvist@example.com", "chidi@example.com", "dana@example.com", "erik@example.com"} {
		person := Person{Owner: owner, Way: "oidc", Subject: "https://id.example.com " + owner, Groups: []string{"ml-team"}, SignedIn: time.Now().Add(-time.Duration(i*7) * time.Hour), Disabled: i == 3}
		if _, err := r.people.create(r.t.Context(), person); err != nil {
			r.t.Fatal(err)
		}
	}
}

func abs(f float64) float64 { return max(f, -f) }

// showRig is a console in use, with a provider's button on its sign-in page.
func showRig(t testing.TB) *rig {
	t.Helper()
	r := newRig(t, func(o *Options) {
		o.APIURL = "https://api.example.com/v1"
		o.Settings.OIDC = config.Default().Console.OIDC
		o.Settings.OIDC.Issuer, o.Settings.OIDC.ClientID, o.Settings.OIDC.Label = "https://id.example.com", "mete", "Continue with Example ID"
		o.Settings.Groups = []config.Group{{Name: "ml-team", Plans: []string{"batch"}}, {Name: "platform", Plans: []string{"gold"}, Admin: true}}
		o.Settings.Plans = []string{"free", "batch"}
		o.Plans = func() []Plan {
			return []Plan{
				{Name: "batch", Limits: []string{"50,000,000 tokens in any 7d", "64 requests at once"}, Models: "Only mete, mete-embed."},
				{Name: "free", Limits: []string{"10 requests in any 1s", "600 requests in any 1m", "60,000 tokens in any 1m", "4 requests at once"}, Models: "Every model but mete-thinking."},
				{Name: "gold", Models: "Every model."},
			}
		}
		o.Pools = func() []Pool {
			return []Pool{
				{Name: "embed", Models: []string{"mete-embed"}, Replicas: []Replica{{ID: "10.0.0.7:8000", State: "ready", Breaker: "closed", InFlight: 2, Answered: 90412}}},
				{Name: "general", Models: []string{"mete", "mete-thinking"}, Waiting: 3, Replicas: []Replica{
					{ID: "10.0.0.5:8000", State: "ready", Breaker: "closed", InFlight: 41, Queued: 2, Answered: 18233},
					{ID: "10.0.0.6:8000", State: "ready", Breaker: "closed", InFlight: 38, Queued: 0, Answered: 17901},
					{ID: "10.0.0.8:8000", State: "open", Why: "breaker open", Breaker: "open", Queued: -1, Answered: 6120},
					{ID: "10.0.0.9:8000", State: "warming", Why: "slow start", Breaker: "closed", InFlight: 9, Answered: 1204},
				}},
			}
		}
	})
	r.seed()
	return r
}

// showPages calls show on every page there is, as an admin sees them.
func showPages(t *testing.T, r *rig, tab *browsertest.Tab, show func(name string)) {
	t.Helper()
	open := func(name, path string) { tab.Open(r.server.URL + path); show(name) }
	open("signin", "/login")
	tab.Fill("[name=owner]", "ann@example.com")
	tab.Fill("[name=password]", "wrong")
	tab.Submit("form button", ".wrong")
	show("signin-wrong")
	tab.Fill("[name=password]", goodPassword)
	tab.Submit("form button", ".side")
	open("keys", "/keys")
	open("newkey", "/keys/new")
	tab.Fill("[name=name]", "build server")
	tab.Submit("main form button", ".secret")
	show("created")
	busy := ""
	for key, err := range r.Keys.List(t.Context(), "ann@example.com") {
		if err == nil && key.Name == "nightly evaluation" {
			busy = key.ID
		}
	}
	open("key", "/keys/"+busy)
	open("authorize", "/authorize")
	tab.Fill("#user_code", "BBBB-BBBB")
	tab.Submit("main form button", ".wrong")
	show("authorize-wrong")
	code, _ := r.begin("mete login on ann-laptop")
	tab.Open(r.server.URL + "/authorize?user_code=" + code)
	tab.Submit("main form button", ".code.shown")
	show("device")
	tab.Submit("[value=approve]", ".seal.done")
	show("approved")
	open("account", "/account")
	for _, page := range []string{"keys", "usage", "pools", "plans", "people", "audit"} {
		open("admin-"+page, "/admin/"+page)
	}
	open("admin-usage-week", "/admin/usage?days=7&by=model")
	open("nothing", "/nothing")
}

func (r *rig) addAnn() {
	r.t.Helper()
	hash, err := r.hasher.hash(r.t.Context(), goodPassword)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.people.create(r.t.Context(), Person{Owner: "ann@example.com", Way: "local", Admin: true, Groups: []string{"platform"}, Password: hash}); err != nil {
		r.t.Fatal(err)
	}
}

// Every page, wide and narrow, light and dark, has no serious finding, and
// nothing in it is wider than a phone.
func TestEveryPageIsAccessible(t *testing.T) {
	axe := browsertest.NewAxe(t)
	browser := browsertest.Start(t)
	r := showRig(t)
	r.addAnn()
	pages, passed := 0, 0
	check := func(tab *browsertest.Tab, name string) {
		serious, held := axe.Check(tab)
		for _, finding := range serious {
			t.Errorf("%s: %s", name, finding)
		}
		pages, passed = pages+1, passed+held
		var wide = browsertest.Get(tab, chromedp.Evaluate[bool]("document.documentElement.scrollWidth > document.documentElement.clientWidth"))
		if wide {
			t.Errorf("%s is wider than the screen", name)
		}
	}
	for i, dark := range []bool{false, true} {
		tab := browser.Tab(t)
		tab.Dark(dark)
		if i == 1 {
			tab.Size(390, 844)
		}
		showPages(t, r, tab, func(name string) { check(tab, fmt.Sprintf("%s, dark %v", name, dark)) })
	}
	t.Logf("%d pages checked, %d rules held, axe found nothing serious: %v", pages, passed, !t.Failed())
}

// METE_SCREENSHOTS=FOLDER takes pictures of all pages.
func TestScreenshots(t *testing.T) {
	folder := os.Getenv("METE_SCREENSHOTS")
	if folder == "" {
		t.Skip("METE_SCREENSHOTS names no folder")
	}
	browser := browsertest.Start(t)
	r := showRig(t)
	r.addAnn()
	for _, look := range []struct {
		name  string
		width int64
		dark  bool
	}{{"desktop", 1280, false}, {"phone", 390, false}, {"dark", 1280, true}, {"phone-dark", 390, true}} {
		tab := browser.Tab(t)
		tab.Dark(look.dark)
		showPages(t, r, tab, func(name string) {
			png := tab.Screenshot(look.width)
			if err := os.WriteFile(filepath.Join(folder, name+"-"+look.name+".png"), png, 0o644); err != nil {
				t.Fatal(err)
			}
			tab.Size(1280, 800)
		})
	}
}

func TestTheWholeConsoleWorksWithoutScripts(t *testing.T) {
	browser := browsertest.Start(t)
	r := newRig(t, nil)
	r.addAnn()
	tab := browser.Tab(t)
	tab.Open(r.server.URL + "/keys")
	tab.NoScripts()
	tab.Open(r.server.URL + "/keys")
	tab.Fill("[name=owner]", "ann@example.com")
	tab.Fill("[name=password]", goodPassword)
	tab.Submit("form button", ".side")
	tab.Open(r.server.URL + "/keys/new")
	tab.Fill("[name=name]", "plain")
	tab.Submit("main form button", ".secret")
	if !secrets.MatchString(tab.Text("#secret")) {
		t.Error("no key is shown")
	}
	code, device := r.begin("a tool")
	tab.Open(r.server.URL + "/authorize")
	tab.Fill("#user_code", strings.ToLower(code))
	tab.Submit("main form button", ".code.shown")
	tab.Submit("[value=approve]", ".seal.done")
	if got := r.poll(device); !strings.Contains(got, "access_token") {
		t.Errorf("the approval gave %s", got)
	}
	tab.Open(r.server.URL + "/keys/" + r.named("plain").ID)
	tab.Submit("section.danger summary", "button.danger")
	tab.Submit("button.danger", ".notice")
	if r.named("plain").Active() {
		t.Error("the key was not revoked")
	}
}

// named is ann's key of this name.
func (r *rig) named(name string) Key {
	r.t.Helper()
	for key, err := range r.Keys.List(r.t.Context(), "ann@example.com") {
		if err == nil && key.Name == name {
			return key
		}
	}
	r.t.Fatalf("no key %q", name)
	return Key{}
}
