package console

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"mete/auth"
	"mete/auth/redistest"
	"mete/config"
	"mete/devicecode"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// rig is a console on a socket, with a key store and a device flow behind it.
type rig struct {
	*Console
	t      testing.TB
	server *httptest.Server
	keys   *auth.Store
	codes  *devicecode.Service
	rdb    redis.UniversalClient
	usage  []UsageRow
}

// newRig makes a console whose members may have the plans free and batch.
// change may alter what it is made of.
func newRig(t testing.TB, change func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, rdb: redistest.Embedded(t)}
	peppers, err := auth.NewPeppers(auth.Pepper{Version: 1, Secret: []byte("a pepper for tests")})
	if err != nil {
		t.Fatal(err)
	}
	r.keys = auth.NewStore(r.rdb, "mete", peppers)
	var serving sync.RWMutex // the handler is made when the URL is known
	var handler http.Handler
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, h *http.Request) {
		serving.RLock()
		defer serving.RUnlock()
		handler.ServeHTTP(w, h)
	}))
	t.Cleanup(r.server.Close)
	seal := peppers.Sealer("console")
	o := Options{
		Service: "mete", URL: r.server.URL, APIURL: "http://127.0.0.1:8080/v1", Settings: config.Default().Console,
		Redis: r.rdb, Log: zerolog.Nop(), Keys: r.keyFuncs(), Devices: r.deviceFuncs(),
		Seals:  Seals{Seal: seal.Seal, Open: seal.Open, Token: seal.Token, Genuine: seal.Genuine},
		Client: config.NewProxies([]string{"127.0.0.0/8"}).Client,
		Usage: func(_ context.Context, owner string, since, _ time.Time) (rows []UsageRow, err error) {
			for _, row := range r.usage {
				if (owner == "" || owner == row.Owner) && !row.Hour.Before(since) {
					rows = append(rows, row)
				}
			}
			return rows, nil
		},
		Pools: func() []Pool {
			return []Pool{{Name: "general", Models: []string{"mete"}, Replicas: []Replica{{ID: "10.0.0.5:8000", State: "ready", Breaker: "closed", Answered: 3}, {ID: "10.0.0.6:8000", State: "open", Why: "breaker open", Answered: 1, Queued: -1}}}}
		},
		Plans: func() []Plan {
			return []Plan{{Name: "free", Limits: []string{"60 requests in any 1m"}}, {Name: "batch"}, {Name: "gold"}}
		},
	}
	o.Settings.Plans = []string{"free", "batch"}
	attempts := devicecode.NewAttempts(r.rdb, "mete:console:{attempts}:")
	o.Try = func(ctx context.Context, caps []Cap) (func(context.Context), time.Duration, error) {
		var all []devicecode.Cap
		for _, c := range caps {
			all = append(all, devicecode.Cap(c))
		}
		return attempts.Try(ctx, all...)
	}
	if change != nil {
		change(&o)
	}
	if r.Console, err = New(o); err != nil {
		t.Fatal(err)
	}
	r.codes = r.newCodes(peppers.Sealer("device"))
	serving.Lock()
	handler = r.Handler()
	serving.Unlock()
	return r
}

func (r *rig) newCodes(seal *auth.Sealer) *devicecode.Service {
	return devicecode.New(devicecode.Options{
		Redis: r.rdb, Service: "mete", VerificationURI: r.URL + "/authorize", CodeLife: 10 * time.Minute,
		Interval: 5 * time.Second, KeyLife: time.Hour, Pending: 100, StartsEach: 100, Polls: 1e6, PollsEach: 1e6,
		Seal: seal.Seal, Open: seal.Open, CheckName: auth.CheckName, PlanExists: func(string) bool { return true },
		Allowed: func(ctx context.Context, owner, plan string) error {
			if err := r.Allowed(ctx, owner, plan); errors.Is(err, ErrNotAllowed) {
				return devicecode.ErrNotAllowed
			}
			return nil
		},
		Promise: func(ctx context.Context, a devicecode.Approval, life time.Duration) error {
			return r.keys.Promise(ctx, a.Owner, a.Ticket, life)
		},
		TearUp: func(ctx context.Context, a devicecode.Approval) { _ = r.keys.TearUp(ctx, a.Owner, a.Ticket) },
		Issue: func(ctx context.Context, a devicecode.Approval) (devicecode.Issued, error) {
			plaintext, key, err := r.keys.Redeem(ctx, a.Ticket, auth.Request{Name: a.Name, Owner: a.Owner, Plan: a.Plan, Origin: auth.FromDevice, Lifetime: a.Life})
			return devicecode.Issued{ID: key.ID, Plaintext: plaintext, Life: a.Life}, err
		},
	})
}

func (r *rig) keyFuncs() Keys {
	one := func(k auth.Key, err error) (Key, error) {
		var invalid *auth.Invalid
		if errors.As(err, &invalid) {
			err = &Invalid{invalid.Param, invalid.Reason}
		} else if errors.Is(err, auth.ErrUnknown) {
			err = ErrNotFound
		}
		return Key{ID: k.ID, Name: k.Name, Owner: k.Owner, Plan: k.Plan, Last4: k.Last4, Origin: string(k.Origin), State: string(k.State), Created: k.Created, Expires: k.Expires, Used: k.Used}, err
	}
	return Keys{
		Create: func(ctx context.Context, n NewKey) (string, Key, error) {
			plaintext, key, err := r.keys.Create(ctx, auth.Request{Name: n.Name, Owner: n.Owner, Plan: n.Plan, Lifetime: n.Life, Origin: auth.FromConsole})
			shown, err := one(key, err)
			return plaintext, shown, err
		},
		Rotate: func(ctx context.Context, id string, overlap time.Duration) (string, Key, error) {
			plaintext, key, err := r.keys.Rotate(ctx, id, overlap, auth.FromConsole)
			shown, err := one(key, err)
			return plaintext, shown, err
		},
		Get:     func(ctx context.Context, id string) (Key, error) { return one(r.keys.Get(ctx, id)) },
		Revoke:  func(ctx context.Context, id string) (Key, error) { return one(r.keys.Revoke(ctx, id)) },
		Rename:  func(ctx context.Context, id, name string) (Key, error) { return one(r.keys.Rename(ctx, id, name)) },
		SetPlan: func(ctx context.Context, id, plan string) (Key, error) { return one(r.keys.SetPlan(ctx, id, plan)) },
		List: func(ctx context.Context, owner string) iter.Seq2[Key, error] {
			return func(yield func(Key, error) bool) {
				for key, err := range r.keys.Keys(ctx, owner) {
					shown, err := one(key, err)
					if !yield(shown, err) {
						return
					}
				}
			}
		},
	}
}

func (r *rig) deviceFuncs() Devices {
	one := func(d devicecode.Waiting, err error) (Device, error) {
		var many *devicecode.TooMany
		switch {
		case errors.As(err, &many):
			err = &TooMany{many.Wait}
		case errors.Is(err, devicecode.ErrWrongCode):
			err = ErrWrongCode
		case errors.Is(err, devicecode.ErrNotAllowed):
			err = ErrNotAllowed
		}
		return Device{Code: devicecode.Show(d.UserCode), Client: d.Client, Address: d.Address, Plan: d.Scope, Age: d.Now.Sub(d.Started), Left: d.Expires.Sub(d.Now), KeyLife: d.KeyLife}, err
	}
	return Devices{
		LookUp: func(ctx context.Context, v Visitor, code string) (Device, error) {
			return one(r.codes.LookUp(ctx, devicecode.Visitor(v), code))
		},
		Approve: func(ctx context.Context, v Visitor, code, plan string) (Device, error) {
			return one(r.codes.Approve(ctx, devicecode.Visitor(v), code, plan))
		},
		Deny: func(ctx context.Context, v Visitor, code string) (Device, error) {
			return one(r.codes.Deny(ctx, devicecode.Visitor(v), code))
		},
	}
}

var userCodes = regexp.MustCompile(`[B-Z]{4}-[B-Z]{4}`)
var deviceCodes = regexp.MustCompile(`[0-9a-f]{40}`)

// begin starts a device login as a client of this name would.
func (r *rig) begin(client string) (userCode, deviceCode string) {
	r.t.Helper()
	answer := r.codes.Code(r.t.Context(), devicecode.Request{
		ContentType: "application/x-www-form-urlencoded", Body: []byte("client_id=" + url.QueryEscape(client)), Address: netip.MustParseAddr("203.0.113.5"),
	})
	if answer.Status != 200 {
		r.t.Fatalf("code gave %d %s", answer.Status, answer.Body)
	}
	return userCodes.FindString(string(answer.Body)), deviceCodes.FindString(string(answer.Body))
}

// poll says what a poll of the code answers.
func (r *rig) poll(deviceCode string) string {
	return string(r.codes.Token(r.t.Context(), devicecode.Request{Body: []byte(`{"device_code":"` + deviceCode + `"}`)}).Body)
}

// browser keeps cookies, and says of its requests what browsers say.
type browser struct {
	r       *rig
	http    *http.Client
	headers map[string]string
	page    string // the last one
	status  int
	header  http.Header
	at      string // where redirects led
}

func (r *rig) browser() *browser {
	jar, _ := cookiejar.New(nil)
	return &browser{r: r, http: &http.Client{Jar: jar, Transport: r.server.Client().Transport}, headers: map[string]string{}}
}

func (b *browser) get(path string) *browser {
	b.r.t.Helper()
	return b.send(http.MethodGet, path, nil)
}

// post sends the form of the last page, with its hidden fields, changed.
func (b *browser) post(path string, fields ...string) *browser {
	b.r.t.Helper()
	form := url.Values{"token": {b.token()}}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return b.send(http.MethodPost, path, form)
}

var tokens = regexp.MustCompile(`name="token" value="([0-9a-f]+)"`)

// token is that of the last form of the page: the page's own, after the frame's.
func (b *browser) token() string {
	found := tokens.FindAllStringSubmatch(b.page, -1)
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1][1]
}

func (b *browser) send(method, path string, form url.Values) *browser {
	b.r.t.Helper()
	request, err := http.NewRequestWithContext(b.r.t.Context(), method, b.r.server.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.r.t.Fatal(err)
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", "null") // under our referrer policy
		request.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for name, value := range b.headers {
		request.Header.Set(name, value)
		if value == "" {
			request.Header.Del(name)
		}
	}
	answer, err := b.http.Do(request)
	if err != nil {
		b.r.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		b.r.t.Fatal(err)
	}
	b.page, b.status, b.header, b.at = string(page), answer.StatusCode, answer.Header, answer.Request.URL.Path
	return b
}

func (b *browser) want(status int, texts ...string) *browser {
	b.r.t.Helper()
	if b.status != status {
		b.r.t.Fatalf("%s gave %d, not %d:\n%s", b.at, b.status, status, b.page)
	}
	for _, text := range texts {
		if !strings.Contains(b.page, text) {
			b.r.t.Fatalf("%s lacks %q:\n%s", b.at, text, b.page)
		}
	}
	return b
}

const goodPassword = "four plain words here"

// signedIn is the browser of a person with an account of its own.
func (r *rig) signedIn(owner string, admin bool) *browser {
	r.t.Helper()
	hash, err := r.hasher.hash(r.t.Context(), goodPassword)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.people.create(r.t.Context(), Person{Owner: owner, Way: "local", Admin: admin, Password: hash}); err != nil {
		r.t.Fatal(err)
	}
	return r.signIn(owner)
}

func (r *rig) signIn(owner string) *browser {
	r.t.Helper()
	b := r.browser()
	b.get("/login").want(200)
	return b.post("/login", "owner", owner, "password", goodPassword, "next", "/keys").want(200)
}
