package devicecode

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"mete/auth/redistest"
)

func TestTheServicesOwnFaceGivesExactlyTheSpecsRecords(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := newRig(t, rdb)
		answer := r.Code(t.Context(), Request{Address: home})
		record := regexp.MustCompile(`^\{"device_code":"[0-9a-f]{40}","user_code":"[B-Z]{4}-[B-Z]{4}","verification_uri":"https://login.example.com/authorize","expires_in":600,"interval":5\}\n$`)
		if answer.Status != 200 || !record.Match(answer.Body) {
			t.Fatalf("%d %s", answer.Status, answer.Body)
		}
		var code codeAnswer
		if err := json.Unmarshal(answer.Body, &code); err != nil {
			t.Fatal(err)
		}
		if got := r.pollJSON(code.DeviceCode); string(got.Body) != `{"status":"pending","error":"authorization_pending","interval":5}`+"\n" || got.Status != 200 {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		r.approve(code)
		got := r.pollJSON(code.DeviceCode)
		token := regexp.MustCompile(`^\{"status":"approved","access_token":"sk-mete-[0-9a-f]{40}","token_type":"bearer","expires_in":7776000\}\n$`)
		if got.Status != 200 || !token.Match(got.Body) || got.Header["Cache-Control"] != "no-store" {
			t.Fatalf("%d %s %v", got.Status, got.Body, got.Header)
		}
		if n := r.keyCount(); n != 1 {
			t.Fatalf("%d keys", n)
		}
	})
}

// Every state of the flow on both faces.
func TestEveryStateOfTheFlow(t *testing.T) {
	long := strings.Repeat("a", MaxBody)
	for _, row := range []struct {
		name     string
		prepare  func(r *rig, code codeAnswer)
		json     string // what is sent in place of the code, if anything
		form     string
		ownCode  int
		own      string
		rfcCode  int
		standard string
	}{
		{"pending", nil, "", "", 200, `"status":"pending","error":"authorization_pending","interval":5`, 400, `"error":"authorization_pending"`},
		{"too fast", func(r *rig, c codeAnswer) { r.pollJSON(c.DeviceCode) }, "", "",
			200, `"status":"pending","error":"slow_down","interval":10`, 400, `"error":"slow_down"`},
		{"denied", func(r *rig, c codeAnswer) { _, _ = r.Deny(r.t.Context(), r.visitor(), c.UserCode) }, "", "",
			400, `"error":"access_denied"`, 400, `"error":"access_denied"`},
		{"expired", func(r *rig, c codeAnswer) { r.expire(c.DeviceCode) }, "", "",
			400, `"error":"expired_token"`, 400, `"error":"expired_token"`},
		{"expired after the approval", func(r *rig, c codeAnswer) { r.approve(c); r.expire(c.DeviceCode) }, "", "",
			400, `"error":"expired_token"`, 400, `"error":"expired_token"`},
		{"used", func(r *rig, c codeAnswer) { r.approve(c); r.pollJSON(c.DeviceCode) }, "", "",
			400, `"error":"invalid_grant"`, 400, `"error":"invalid_grant"`},
		{"barred since the approval", func(r *rig, c codeAnswer) { r.approve(c); r.barred["ann@example.com"] = true }, "", "",
			400, `"error":"access_denied"`, 400, `"error":"access_denied"`},
		{"unknown", nil, `{"device_code":"` + strings.Repeat("0", 40) + `"}`, "device_code=" + strings.Repeat("0", 40),
			400, `"error":"invalid_grant"`, 400, `"error":"invalid_grant"`},
		{"upper case", nil, `{"device_code":"` + strings.Repeat("A", 40) + `"}`, "device_code=" + strings.Repeat("A", 40),
			400, `"error":"invalid_grant"`, 400, `"error":"invalid_grant"`},
		{"no code", nil, `{}`, "device_code=", 400, `"error":"invalid_request"`, 400, `"error":"invalid_request"`},
		{"an empty body", nil, ` `, "&", 400, `"error":"invalid_request"`, 400, `"error":"invalid_request"`},
		{"a wrong type", nil, `{"device_code":40}`, "device_code=a&device_code=b", 400, `must be a string`, 400, `given twice`},
		{"no object", nil, `["device_code"]`, "%zz", 400, `not a JSON object`, 400, `not a form`},
		{"broken JSON", nil, `{"device_code":`, "device_code=%", 400, `not a JSON object`, 400, `not a form`},
		{"oversized", nil, `{"device_code":"` + long + `"}`, "device_code=" + long, 413, `too large`, 413, `too large`},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, face := range []string{"own", "standard"} {
				r := newRig(t, redistest.Embedded(t))
				code := r.begin()
				if row.prepare != nil {
					row.prepare(r, code)
				}
				keys := r.keyCount()
				request := Request{ContentType: "application/json; charset=utf-8", Address: home, Body: []byte(row.json)}
				status, want := row.ownCode, row.own
				if row.json == "" {
					request.Body = []byte(`{"device_code":"` + code.DeviceCode + `"}`)
				}
				if face == "standard" {
					status, want = row.rfcCode, row.standard
					request.ContentType = "application/x-www-form-urlencoded"
					request.Body = []byte("grant_type=" + GrantType + "&client_id=test&" + row.form)
					if row.form == "" {
						request.Body = []byte("grant_type=" + GrantType + "&client_id=test&device_code=" + code.DeviceCode)
					}
				}
				got := r.Token(t.Context(), request)
				if got.Status != status || !strings.Contains(string(got.Body), want) {
					t.Errorf("%s face: %d %s", face, got.Status, got.Body)
				}
				if r.keyCount() != keys {
					t.Errorf("%s face: a key was made", face)
				}
			}
		})
	}
}

func TestOddRequestsAreRefused(t *testing.T) {
	r := newRig(t, redistest.Embedded(t))
	code := r.begin()
	send := func(contentType, body string) Response {
		return r.Token(t.Context(), Request{ContentType: contentType, Body: []byte(body), Address: home})
	}
	basic := Request{ContentType: "application/x-www-form-urlencoded", Authorization: "Basic eDo=", Address: home,
		Body: []byte("grant_type=" + GrantType + "&device_code=" + code.DeviceCode)}
	if got := r.Token(t.Context(), basic); got.Status != 401 || !strings.Contains(string(got.Body), "invalid_client") {
		t.Errorf("a client that authenticates: %d %s", got.Status, got.Body)
	}
	for _, row := range []struct {
		name, contentType, body string
		status                  int
		want                    string
	}{
		{"another content type", "text/plain", `{"device_code":"` + code.DeviceCode + `"}`, 415, "invalid_request"},
		{"JSON without a content type", "", `{"device_code":"` + code.DeviceCode + `"}`, 200, "pending"},
		{"another grant type", "application/x-www-form-urlencoded", "grant_type=password&device_code=" + code.DeviceCode, 400, "unsupported_grant_type"},
		{"a grant type in JSON gets the standard's face", "application/json", `{"client_id":"test","grant_type":"` + GrantType + `","device_code":"` + code.DeviceCode + `"}`, 400, "slow_down"},
	} {
		if got := send(row.contentType, row.body); got.Status != row.status || !strings.Contains(string(got.Body), row.want) {
			t.Errorf("%s: %d %s", row.name, got.Status, got.Body)
		}
	}
}

func TestStartingWithAClientAndAScope(t *testing.T) {
	r := newRig(t, redistest.Embedded(t))
	r.Plans = []string{"free"}
	start := func(form string) Response {
		return r.Code(t.Context(), Request{ContentType: "application/x-www-form-urlencoded", Address: home, Body: []byte(form)})
	}
	for form, want := range map[string]string{
		"scope=batch":                          "invalid_scope", // exists, but may not be had this way
		"scope=none":                           "invalid_scope",
		"client_id=%1b":                        "invalid_request",
		"client_id=" + strings.Repeat("x", 65): "invalid_request",
	} {
		if got := start(form); got.Status != 400 || !strings.Contains(string(got.Body), want) {
			t.Errorf("%s: %d %s", form, got.Status, got.Body)
		}
	}
	var code codeAnswer
	got := start("client_id=my-tool&scope=free")
	if err := json.Unmarshal(got.Body, &code); err != nil || code.Complete != "https://login.example.com/authorize?user_code="+code.UserCode {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	if _, err := r.Approve(t.Context(), r.visitor(), code.UserCode, "batch"); err != ErrNotAllowed {
		t.Fatalf("a plan that may not be had this way: %v", err)
	}
	seen, err := r.LookUp(t.Context(), r.visitor(), code.UserCode)
	if err != nil || seen.Client != "my-tool" || seen.Scope != "free" || seen.Address != "192.0.2.7" || seen.KeyLife != 90*24*time.Hour {
		t.Fatalf("%+v, %v", seen, err)
	}
	r.approve(code)
	poll := func(client string) Response {
		return r.Token(t.Context(), Request{ContentType: "application/x-www-form-urlencoded", Address: home,
			Body: []byte("grant_type=" + GrantType + "&device_code=" + code.DeviceCode + "&client_id=" + client)})
	}
	if got := poll("another-tool"); !strings.Contains(string(got.Body), "invalid_grant") {
		t.Errorf("another client got %s", got.Body)
	}
	if got := poll("my-tool"); got.Status != 200 || !strings.Contains(string(got.Body), `"scope":"free"`) || strings.Contains(string(got.Body), "status") {
		t.Errorf("the client itself got %d %s", got.Status, got.Body)
	}
}

func TestPacingIsForGoodAndOverWhenDecided(t *testing.T) {
	r := newRig(t, redistest.Embedded(t))
	code := r.begin()
	for _, want := range []string{`pending","interval":5`, `slow_down","interval":10`, `slow_down","interval":15`} {
		if got := r.pollJSON(code.DeviceCode); !strings.Contains(string(got.Body), want) {
			t.Fatalf("want %s, got %s", want, got.Body)
		}
	}
	r.rewrite(code.DeviceCode, func(m *Machine) { m.Polled = m.Polled.Add(-14 * time.Second) })
	if got := r.pollJSON(code.DeviceCode); !strings.Contains(string(got.Body), `slow_down","interval":20`) {
		t.Fatalf("14 s after the last answer: %s", got.Body)
	}
	r.rewrite(code.DeviceCode, func(m *Machine) { m.Polled = m.Polled.Add(-6 * time.Second) })
	if got := r.pollJSON(code.DeviceCode); !strings.Contains(string(got.Body), `authorization_pending","interval":20`) {
		t.Fatalf("20 s after the last answer: %s", got.Body)
	}
	r.approve(code)
	if got := r.pollJSON(code.DeviceCode); !strings.Contains(string(got.Body), "access_token") {
		t.Fatalf("an approved code was held back: %s", got.Body)
	}
}

func TestWhatBecameOfACodeIsAudited(t *testing.T) {
	r := newRig(t, redistest.Embedded(t))
	first, second := r.begin(), r.begin()
	r.approve(first)
	r.pollJSON(first.DeviceCode)
	if _, err := r.Deny(t.Context(), r.visitor(), second.UserCode); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range r.events {
		got = append(got, e.What+" by "+e.Owner)
	}
	want := []string{"device approved by ann@example.com", "key created by ann@example.com", "device denied by ann@example.com"}
	if !slices.Equal(got, want) || r.events[1].KeyID == "" {
		t.Fatalf("%v", got)
	}
}
