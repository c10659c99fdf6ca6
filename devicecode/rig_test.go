package devicecode

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"mete/auth"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// rig is one gateway's device flow with the key store behind it.
type rig struct {
	*Service
	t      testing.TB
	keys   *auth.Store
	sealer *auth.Sealer
	mu     sync.Mutex
	events []Event
	barred map[string]bool // owners who may not have keys any more
}

var home = netip.MustParseAddr("192.0.2.7")

func newRig(t testing.TB, rdb redis.UniversalClient) *rig {
	t.Helper()
	peppers, err := auth.NewPeppers(auth.Pepper{Version: 1, Secret: []byte("a pepper for tests")})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, keys: auth.NewStore(rdb, "mete", peppers), sealer: peppers.Sealer("device"), barred: map[string]bool{}}
	r.Service = New(Options{
		Redis: rdb, Service: "mete", VerificationURI: "https://login.example.com/authorize",
		CodeLife: 10 * time.Minute, Interval: 5 * time.Second, KeyLife: 90 * 24 * time.Hour,
		Pending: 1000, StartsEach: 20, Polls: 1e6, PollsEach: 1e6,
		Seal: r.sealer.Seal, Open: r.sealer.Open, CheckName: auth.CheckName,
		PlanExists: func(plan string) bool { return plan == "free" || plan == "batch" },
		Allowed:    r.allowed, Promise: r.promise, TearUp: r.tearUp, Issue: r.issue,
		Audit: func(_ context.Context, e Event) { r.mu.Lock(); r.events = append(r.events, e); r.mu.Unlock() },
	})
	return r
}

func (r *rig) allowed(_ context.Context, owner, plan string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.barred[owner] || plan != "free" && plan != "batch" {
		return ErrNotAllowed
	}
	return nil
}

func (r *rig) promise(ctx context.Context, a Approval, life time.Duration) error {
	return r.keys.Promise(ctx, a.Owner, a.Ticket, life)
}

func (r *rig) tearUp(ctx context.Context, a Approval) { _ = r.keys.TearUp(ctx, a.Owner, a.Ticket) }

func (r *rig) issue(ctx context.Context, a Approval) (Issued, error) {
	plaintext, key, err := r.keys.Redeem(ctx, a.Ticket, auth.Request{
		Name: a.Name, Owner: a.Owner, Plan: a.Plan, Origin: auth.FromDevice, Lifetime: a.Life,
	})
	if errors.Is(err, auth.ErrTicketUsed) {
		err = ErrTicketUsed
	}
	return Issued{ID: key.ID, Plaintext: plaintext, Life: a.Life}, err
}

// begin starts a code by the service's own face.
func (r *rig) begin() codeAnswer {
	r.t.Helper()
	answer := r.Code(r.t.Context(), Request{Address: home})
	var code codeAnswer
	if err := json.Unmarshal(answer.Body, &code); err != nil || answer.Status != 200 {
		r.t.Fatalf("code gave %d %s", answer.Status, answer.Body)
	}
	return code
}

func (r *rig) visitor() Visitor { return Visitor{Owner: "ann@example.com", Address: home} }

func (r *rig) approve(code codeAnswer) {
	r.t.Helper()
	if _, err := r.Approve(r.t.Context(), r.visitor(), code.UserCode, "free"); err != nil {
		r.t.Fatal(err)
	}
}

// pollJSON polls by the service's own face, poll by RFC 8628's.
func (r *rig) pollJSON(deviceCode string) Response {
	return r.Token(r.t.Context(), Request{ContentType: "application/json", Address: home, Body: []byte(`{"device_code":"` + deviceCode + `"}`)})
}

func (r *rig) pollForm(deviceCode string) Response {
	return r.Token(r.t.Context(), Request{ContentType: "application/x-www-form-urlencoded", Address: home,
		Body: []byte("grant_type=" + GrantType + "&client_id=test&device_code=" + deviceCode)})
}

// rewrite changes the record of a code as time would, which saves waiting.
func (r *rig) rewrite(deviceCode string, change func(*Machine)) {
	r.t.Helper()
	e, err := r.store.byDigest(r.t.Context(), digestOf(deviceCode))
	if err != nil {
		r.t.Fatal(err)
	}
	change(&e.Machine)
	if done, err := r.store.swap(r.t.Context(), e); err != nil || !done {
		r.t.Fatalf("record not rewritten: %v", err)
	}
}

func (r *rig) expire(deviceCode string) {
	r.rewrite(deviceCode, func(m *Machine) { m.Expires = m.Asked.Started.Add(-time.Millisecond) })
}

// keyCount is how many keys of ann's the store lists.
func (r *rig) keyCount() int {
	r.t.Helper()
	n := 0
	for _, err := range r.keys.Keys(r.t.Context(), "ann@example.com") {
		if err != nil {
			r.t.Fatal(err)
		}
		n++
	}
	return n
}

// handler mounts the routes on net/http, for clients that want a URL.
func (r *rig) handler() http.Handler {
	mux := http.NewServeMux()
	mount := func(route func(context.Context, Request) Response) http.HandlerFunc {
		return func(w http.ResponseWriter, h *http.Request) {
			body, _ := io.ReadAll(io.LimitReader(h.Body, MaxBody+1))
			answer := route(h.Context(), Request{
				ContentType: h.Header.Get("Content-Type"), Body: body, Authorization: h.Header.Get("Authorization"),
				Address: netip.MustParseAddrPort(h.RemoteAddr).Addr(),
			})
			for name, value := range answer.Header {
				w.Header().Set(name, value)
			}
			w.WriteHeader(answer.Status)
			_, _ = w.Write(answer.Body)
		}
	}
	mux.Handle("POST /v1/auth/device/code", mount(r.Code))
	mux.Handle("POST /v1/auth/device/token", mount(r.Token))
	return mux
}
