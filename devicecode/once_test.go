package devicecode

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/oauth2"

	"mete/auth/redistest"
)

// 50 polls on 3 gateways while the code is approved: exactly one key.
func TestParallelPollsGetExactlyOneKey(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		gateways := []*rig{newRig(t, rdb), newRig(t, rdb), newRig(t, rdb)}
		for range 5 {
			before := gateways[0].keyCount()
			code := gateways[0].begin()
			var keys, later atomic.Int64
			var wait sync.WaitGroup
			for i := range 50 {
				wait.Go(func() {
					for { // a poll that came before the approval asks again
						answer := string(gateways[i%3].pollJSON(code.DeviceCode).Body)
						switch {
						case strings.Contains(answer, "access_token"):
							keys.Add(1)
							return
						case strings.Contains(answer, "invalid_grant"):
							later.Add(1)
							return
						case !strings.Contains(answer, "pending"):
							t.Errorf("a poll gave %s", answer)
							return
						}
					}
				})
			}
			gateways[1].approve(code)
			wait.Wait()
			if made := gateways[0].keyCount() - before; keys.Load() != 1 || later.Load() != 49 || made != 1 {
				t.Fatalf("%d polls got a key, %d were late, %d keys were made", keys.Load(), later.Load(), made)
			}
		}
	})
}

func TestRedisRestartsInMidFlow(t *testing.T) {
	server := redistest.Start(t, "--appendfsync", "always")
	r := newRig(t, server.Client())
	code := r.begin()
	restart := func() {
		t.Helper()
		server.Kill()
		if got := r.pollForm(code.DeviceCode); got.Status != 503 || !strings.Contains(string(got.Body), "slow_down") || got.Header["Retry-After"] == "" {
			t.Fatalf("without Redis a poll gives %d %s", got.Status, got.Body)
		}
		if _, err := r.LookUp(t.Context(), r.visitor(), code.UserCode); err == nil || err == ErrWrongCode {
			t.Fatalf("without Redis a look-up gives %v", err)
		}
		server.Restart()
	}
	restart()
	r.approve(code)
	restart()
	if got := r.pollForm(code.DeviceCode); got.Status != 200 {
		t.Fatalf("after the restart: %d %s", got.Status, got.Body)
	}
	restart()
	if got := r.pollForm(code.DeviceCode); !strings.Contains(string(got.Body), "invalid_grant") || r.keyCount() != 1 {
		t.Fatalf("the code was used twice: %s", got.Body)
	}
	code = r.begin()
	server.RestartEmpty()
	if got := r.pollForm(code.DeviceCode); got.Status != 400 || !strings.Contains(string(got.Body), "invalid_grant") {
		t.Fatalf("a store that lost the code: %d %s", got.Status, got.Body)
	}
}

// The key's record and the end of its ticket are one step: whatever else
// breaks, a second poll cannot make a second key.
func TestACodeWhoseStateWasNotWrittenMakesNoSecondKey(t *testing.T) {
	r := newRig(t, redistest.Embedded(t))
	code := r.begin()
	r.approve(code)
	e, err := r.store.byDigest(t.Context(), digestOf(code.DeviceCode))
	if err != nil {
		t.Fatal(err)
	}
	r.pollJSON(code.DeviceCode)
	r.rdb().Set(t.Context(), r.store.code(e.digest), e.sealed, time.Minute) // as it was before
	if got := r.pollJSON(code.DeviceCode); !strings.Contains(string(got.Body), "invalid_grant") || r.keyCount() != 1 {
		t.Fatalf("%s, %d keys", got.Body, r.keyCount())
	}
}

func (r *rig) rdb() redis.UniversalClient { return r.store.rdb }

// Whoever can write Redis, but does not know the pepper, approves nothing.
func TestAForgedApprovalIsAnUnknownCode(t *testing.T) {
	r := newRig(t, redistest.Embedded(t))
	code, other := r.begin(), r.begin()
	name := r.store.code(digestOf(code.DeviceCode))
	sealed := r.rdb().Get(t.Context(), name).Val()
	forged := map[string]string{
		"a changed state":            strings.Replace(sealed, `"state":"pending"`, `"state":"approved"`, 1),
		"no seal":                    sealed[strings.Index(sealed, "{"):],
		"the record of another code": r.rdb().Get(t.Context(), r.store.code(digestOf(other.DeviceCode))).Val(),
	}
	for what, value := range forged {
		if value == sealed {
			t.Fatalf("%s: nothing was forged", what)
		}
		r.rdb().Set(t.Context(), name, value, time.Minute)
		if got := r.pollJSON(code.DeviceCode); !strings.Contains(string(got.Body), "invalid_grant") {
			t.Errorf("%s: %s", what, got.Body)
		}
	}
}

func TestNeitherDeviceCodeNorKeyIsInTheStore(t *testing.T) {
	r := newRig(t, redistest.Embedded(t))
	code := r.begin()
	r.approve(code)
	var token tokenAnswer
	if err := json.Unmarshal(r.pollJSON(code.DeviceCode).Body, &token); err != nil || token.AccessToken == "" {
		t.Fatal("no key")
	}
	ctx := t.Context()
	for _, name := range r.rdb().Keys(ctx, "*").Val() {
		all := name + r.rdb().Get(ctx, name).Val()
		for field, value := range r.rdb().HGetAll(ctx, name).Val() {
			all += field + value
		}
		if strings.Contains(all, code.DeviceCode) || strings.Contains(all, token.AccessToken[8:]) {
			t.Errorf("%s holds a secret", name)
		}
	}
}

// golang.org/x/oauth2 goes through the flow as it is.
func TestAStandardClientCompletesTheFlow(t *testing.T) {
	r := newRig(t, redistest.Embedded(t))
	r.Interval = time.Second
	pending := make(chan struct{})
	var once sync.Once
	var slowed atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, h *http.Request) {
		answer := httptest.NewRecorder()
		r.handler().ServeHTTP(answer, h)
		body := answer.Body.String()
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = io.WriteString(w, body)
		slowed.Store(slowed.Load() || strings.Contains(body, "slow_down"))
		if strings.Contains(body, "authorization_pending") {
			once.Do(func() { close(pending) })
		}
	}))
	t.Cleanup(server.Close)
	standard := oauth2.Config{ClientID: "a-standard-client", Scopes: []string{"batch"}, Endpoint: oauth2.Endpoint{
		DeviceAuthURL: server.URL + "/v1/auth/device/code", TokenURL: server.URL + "/v1/auth/device/token",
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	code, err := standard.DeviceAuth(ctx)
	if err != nil || code.VerificationURIComplete == "" || code.Interval != 1 {
		t.Fatalf("%+v, %v", code, err)
	}
	var approved sync.WaitGroup
	approved.Go(func() {
		<-pending // after a poll that was told to wait
		if _, err := r.Approve(ctx, r.visitor(), code.UserCode, "batch"); err != nil {
			t.Error(err)
		}
	})
	token, err := standard.DeviceAccessToken(ctx, code)
	approved.Wait()
	if err != nil || !strings.HasPrefix(token.AccessToken, "sk-mete-") || token.Type() != "Bearer" || time.Until(token.Expiry) < 80*24*time.Hour {
		t.Fatalf("%+v, %v", token, err)
	}
	if slowed.Load() {
		t.Error("a client that keeps the interval was told to slow down")
	}
	if _, err := standard.DeviceAccessToken(ctx, code); err == nil || !strings.Contains(err.Error(), "invalid_grant") {
		t.Fatalf("the second time: %v", err)
	}
}
