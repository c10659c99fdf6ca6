package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// script is a gateway that answers polls by a list. The last answer stays.
type script struct {
	t       *testing.T
	server  *httptest.Server
	answers []string   // "200 {...}"; "cut" closes the connection
	mu      sync.Mutex // a poll that was cut may still be at its end when the next comes
	polls   int
	waits   []time.Duration
	now     time.Time
}

func newScript(t *testing.T, answers ...string) *script {
	t.Helper()
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("HOME", home)
	s := &script{t: t, answers: answers, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/auth/device/code", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"device_code":"d","user_code":"WDJB-MJHT","verification_uri":"https://login.example.com/authorize","verification_uri_complete":"https://login.example.com/authorize?user_code=WDJB-MJHT","expires_in":60,"interval":5}`)
	})
	mux.HandleFunc("POST /v1/auth/device/token", s.answer)
	s.server = httptest.NewServer(mux)
	t.Cleanup(s.server.Close)
	return s
}

func (s *script) answer(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	text := s.answers[min(s.polls, len(s.answers)-1)]
	s.polls++
	s.mu.Unlock()
	if text == "cut" {
		panic(http.ErrAbortHandler)
	}
	status, body, _ := strings.Cut(text, " ")
	code := 0
	_, _ = fmt.Sscan(status, &code)
	w.WriteHeader(code)
	fmt.Fprint(w, body)
}

// login runs the command on a clock that never waits.
func (s *script) login(flags loginFlags, terminal bool) (string, error) {
	var out bytes.Buffer
	flags.url = s.server.URL
	l := &login{out: &out, terminal: terminal, now: func() time.Time { return s.now }, open: func(string) bool { return false }}
	l.wait = func(ctx context.Context, d time.Duration) error {
		s.waits = append(s.waits, d)
		s.now = s.now.Add(d)
		return ctx.Err()
	}
	err := l.run(s.t.Context(), flags)
	return out.String(), err
}

const (
	pendingAnswer = `400 {"error":"authorization_pending"}`
	slowAnswer    = `400 {"error":"slow_down"}`
	givenAnswer   = `200 {"access_token":"sk-mete-0123456789abcdef0123456789abcdef01234567","token_type":"bearer","expires_in":3600,"scope":"free"}`
)

func TestLoginUnderAllAnswers(t *testing.T) {
	for _, row := range []struct {
		name    string
		answers []string
		polls   int
		waits   string // seconds between polls
		want    string // of the error; empty: a key
	}{
		{"approved at once", []string{givenAnswer}, 1, "5", ""},
		{"pending, then approved", []string{pendingAnswer, pendingAnswer, givenAnswer}, 3, "5 5 5", ""},
		{"slow_down is for good", []string{slowAnswer, pendingAnswer, slowAnswer, givenAnswer}, 4, "5 10 10 15", ""},
		{"a network that hiccups", []string{"cut", "cut", pendingAnswer, givenAnswer}, 4, "5 6 8 5", ""},
		{"a gateway that hiccups", []string{`503 {"error":"slow_down"}`, `429 {}`, givenAnswer}, 3, "5 6 8", ""},
		{"denied", []string{pendingAnswer, `400 {"error":"access_denied"}`}, 2, "5 5", "the request was denied"},
		{"expired", []string{`400 {"error":"expired_token"}`}, 1, "5", "expired"},
		{"used", []string{`400 {"error":"invalid_grant"}`}, 1, "5", "does not know the code"},
		{"nobody decides", []string{pendingAnswer}, 12, "5 5 5 5 5 5 5 5 5 5 5 5", "expired"},
		{"the network stays away", []string{"cut"}, 5, "5 6 8 12 20 9", "expired"},
		{"nonsense", []string{`200 {}`}, 1, "5", "gave no key"},
		{"another refusal, with an escape sequence", []string{`400 {"error":"x","error_description":"no \u001b[31mluck"}`}, 1, "5", "the gateway refused: no [31mluck"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScript(t, row.answers...)
			out, err := s.login(loginFlags{noQR: true}, false)
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Fatalf("error %v", err)
			}
			var waits []string
			for _, d := range s.waits {
				waits = append(waits, fmt.Sprint(int(d.Seconds())))
			}
			if got := strings.Join(waits, " "); got != row.waits && row.name != "the network stays away" {
				t.Errorf("waited %s", got)
			}
			if strings.Contains(out, "sk-mete-") {
				t.Error("the key is printed")
			}
			store, _ := openCredentials()
			if has := len(store.Gateways) == 1; has != (row.want == "") {
				t.Errorf("a key is stored: %v", has)
			}
		})
	}
}

func TestLoginShowsCodeLinkAndQR(t *testing.T) {
	s := newScript(t, pendingAnswer, givenAnswer)
	out, err := s.login(loginFlags{}, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"https://login.example.com/authorize\n", "WDJB-MJHT", "\u2588", "\x1b[30;107m", "good for 1:00 more", "good for 0:51 more", "Logged in to " + s.server.URL} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if plain, _ := newScript(t, givenAnswer).login(loginFlags{noQR: true}, false); strings.Contains(plain, "\x1b") || strings.Contains(plain, "\r") {
		t.Error("something for terminals went elsewhere")
	}
}

func TestLoginStopsWhenInterrupted(t *testing.T) {
	s := newScript(t, pendingAnswer)
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	l := &login{out: &out, now: time.Now, open: func(string) bool { return false }}
	l.wait = func(ctx context.Context, _ time.Duration) error { cancel(); return ctx.Err() }
	err := l.run(ctx, loginFlags{url: s.server.URL, noQR: true})
	if err == nil || err.Error() != "interrupted: nothing was stored" {
		t.Errorf("error %v", err)
	}
}

func TestBigCodes(t *testing.T) {
	for _, letter := range "BCDFGHJKLMNPQRSTVWXZ-" {
		rows := strings.Split(font[letter], "|")
		if len(rows) != 5 {
			t.Fatalf("%c has %d rows", letter, len(rows))
		}
		for _, row := range rows {
			if len(row) != len(rows[0]) {
				t.Errorf("%c is not a rectangle", letter)
			}
		}
	}
	if lines := strings.Count(bigCode("WDJB-MJHT"), "\n"); lines != 5 {
		t.Errorf("a code has %d lines", lines)
	}
	if got := bigCode("12\x1b[2J"); got != "    12[2J\n" {
		t.Errorf("a foreign code is shown as %q", got)
	}
}

func TestGatewayURLs(t *testing.T) {
	for given, want := range map[string]string{
		"https://api.example.com": "https://api.example.com", "https://api.example.com/v1/": "https://api.example.com",
		"api.example.com": "https://api.example.com", "https://example.com/llm/v1": "https://example.com/llm",
		"http://127.0.0.1:8080": "http://127.0.0.1:8080", "http://localhost:8080/v1": "http://localhost:8080",
		"http://api.example.com": "", "ftp://x": "", "https://u:p@x": "", "https://": "", "https://x?y": "",
	} {
		if got, err := normaliseBase(given); got != want || (err == nil) != (want != "") {
			t.Errorf("%s is %q, %v", given, got, err)
		}
	}
}

func TestStoredKeysByGateway(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("HOME", home)
	key := "sk-acme-0123456789abcdef0123456789abcdef01234567"
	store, err := openCredentials()
	if err != nil {
		t.Fatal(err)
	}
	for _, base := range []string{"https://one.example.com", "https://two.example.com/it's"} {
		if err := store.put(base, credential{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]string{
		"env":                                    `export OPENAI_BASE_URL='https://two.example.com/it'\''s/v1' OPENAI_API_KEY=` + key + ` ACME_API_KEY=` + key + "\n",
		"env --url https://one.example.com":      `export OPENAI_BASE_URL=https://one.example.com/v1 OPENAI_API_KEY=` + key + ` ACME_API_KEY=` + key + "\n",
		"env --url one.example.com --shell fish": `set -gx OPENAI_BASE_URL https://one.example.com/v1; set -gx OPENAI_API_KEY ` + key + `; set -gx ACME_API_KEY ` + key + "\n",
	} {
		if got, _, err := mete(t.Context(), strings.Fields(args)...); got != want || err != nil {
			t.Errorf("%s: %q, %v", args, got, err)
		}
	}
	if _, _, err := mete(t.Context(), "env", "--url", "three.example.com"); err == nil || !strings.Contains(err.Error(), "mete login --url https://three.example.com") {
		t.Errorf("%v", err)
	}
	if err := store.put("https://one.example.com", credential{Key: key, Expires: time.Now().Add(-time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := mete(t.Context(), "env"); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(store.path, []byte(`{"gateways": {"x": {"key": "`+key), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := mete(t.Context(), "env"); err == nil || strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "is broken") {
		t.Errorf("%v", err)
	}
	if entries, _ := filepath.Glob(filepath.Join(filepath.Dir(store.path), "*")); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestWhoamiAndLogout(t *testing.T) {
	s := newScript(t, givenAnswer)
	if _, err := s.login(loginFlags{noQR: true}, false); err != nil {
		t.Fatal(err)
	}
	s.waits = nil
	// This gateway knows nothing of keys: what does not work is said, and kept.
	if _, _, err := mete(t.Context(), "logout"); err == nil || !strings.Contains(err.Error(), "was not revoked") {
		t.Errorf("logout: %v", err)
	}
	if _, _, err := mete(t.Context(), "whoami"); err == nil {
		t.Error("whoami made something up")
	}
	var out bytes.Buffer
	body, _ := json.Marshal(map[string]any{
		"id": "k_1", "name": "laptop", "owner": "ann", "plan": "free", "expires": nil,
		"limits": []map[string]any{{"kind": "requests", "limit": 60, "remaining": 58, "per": "1m0s", "reset": "12s"}, {"kind": "concurrent", "limit": 4, "remaining": 4}},
	})
	if err := printOwnKey(&out, "https://x", body); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`Owner +ann`, `Plan +free`, `Key +laptop \(k_1\)`, `Expires +never`, `Requests +58 of 60 left in any 1m, all of it in 12s`, `Concurrent +4 of 4 left\n`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if _, _, err := mete(t.Context(), "logout", "--forget"); err != nil {
		t.Error(err)
	}
}
