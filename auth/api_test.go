package auth

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"mete/auth/redistest"
)

const testToken = "an-admin-token-for-tests"

// testAPI serves the key API on a socket; log is what the API logs.
func testAPI(t testing.TB, s *Store) (server *httptest.Server, log *bytes.Buffer) {
	t.Helper()
	log = &bytes.Buffer{}
	api := &API{
		Store: s, Token: testToken, Log: zerolog.New(zerolog.SyncWriter(log)),
		PlanExists: func(plan string) bool { return plan == "free" },
	}
	server = httptest.NewServer(api.Handler())
	t.Cleanup(server.Close)
	return server, log
}

type answer struct {
	status int
	header http.Header
	body   string
}

func call(t testing.TB, server *httptest.Server, method, path, body string) answer {
	t.Helper()
	return callAs(t, server, "Bearer "+testToken, method, path, body)
}

func callAs(t testing.TB, server *httptest.Server, authorization, method, path, body string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", authorization)
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(content)}
}

// errorOf reads OpenAI's error body and insists on all four members.
func errorOf(t testing.TB, a answer) (code, param string) {
	t.Helper()
	var body struct {
		Error map[string]any `json:"error"`
	}
	if err := json.Unmarshal([]byte(a.body), &body); err != nil {
		t.Fatalf("body %q: %v", a.body, err)
	}
	for _, member := range []string{"message", "type", "param", "code"} {
		if _, ok := body.Error[member]; !ok || len(body.Error) != 4 {
			t.Fatalf("error body %q", a.body)
		}
	}
	code, _ = body.Error["code"].(string)
	param, _ = body.Error["param"].(string)
	return code, param
}

func TestTheKeyAPIMakesListsRotatesAndRevokes(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := testStore(t, rdb)
		server, _ := testAPI(t, s)
		made := call(t, server, "POST", "/admin/keys", `{"name":"ci","owner":"ann","plan":"free","expires_in":"90d"}`)
		var issued Issued
		if err := json.Unmarshal([]byte(made.body), &issued); err != nil || made.status != 201 {
			t.Fatalf("%d %s: %v", made.status, made.body, err)
		}
		if found, err := admit(t, s, issued.Plaintext); err != nil || found.Expires.Sub(found.Created) != 90*24*time.Hour {
			t.Fatalf("the key leads to %+v, %v", found, err)
		}
		rotated := call(t, server, "POST", "/admin/keys/"+issued.ID+"/rotate", "")
		if rotated.status != 201 {
			t.Fatalf("rotate gave %d %s", rotated.status, rotated.body)
		}
		if old, _ := admit(t, s, issued.Plaintext); time.Until(old.Expires) > 24*time.Hour {
			t.Fatalf("the old key expires at %v", old.Expires)
		}
		revoked := call(t, server, "DELETE", "/admin/keys/"+issued.ID, "")
		if revoked.status != 200 || !strings.Contains(revoked.body, `"state":"revoked"`) {
			t.Fatalf("revoke gave %d %s", revoked.status, revoked.body)
		}
		var list struct {
			Object string
			Data   []Key
		}
		listed := call(t, server, "GET", "/admin/keys?owner=ann", "")
		if err := json.Unmarshal([]byte(listed.body), &list); err != nil || list.Object != "list" || len(list.Data) != 2 {
			t.Fatalf("list gave %s: %v", listed.body, err)
		}
		if empty := call(t, server, "GET", "/admin/keys?owner=bob", ""); empty.body != "{\"object\":\"list\",\"data\":[]}\n" {
			t.Fatalf("bob's list is %q", empty.body)
		}
	})
}

func TestTheKeyAPIRefuses(t *testing.T) {
	s := testStore(t, redistest.Embedded(t))
	server, log := testAPI(t, s)
	_, dead := mustCreate(t, s, testRequest())
	if _, err := s.Revoke(t.Context(), dead.ID); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, method, path, body string
		status                   int
		code, param              string
	}{
		{"a plan that does not exist", "POST", "/admin/keys", `{"name":"ci","plan":"gold"}`, 400, "invalid_value", "plan"},
		{"no plan", "POST", "/admin/keys", `{"name":"ci"}`, 400, "invalid_value", "plan"},
		{"no name", "POST", "/admin/keys", `{"plan":"free","owner":"ann"}`, 400, "invalid_value", "name"},
		{"a name that cannot serve as owner", "POST", "/admin/keys", `{"name":"Ann's","plan":"free"}`, 400, "invalid_value", "owner"},
		{"a lifetime without a unit", "POST", "/admin/keys", `{"name":"ci","plan":"free","expires_in":"90"}`, 400, "invalid_value", "expires_in"},
		{"a lifetime of a second", "POST", "/admin/keys", `{"name":"ci","plan":"free","expires_in":"1s"}`, 400, "invalid_value", "expires_in"},
		{"an unknown field", "POST", "/admin/keys", `{"role":"admin"}`, 400, "invalid_value", "role"},
		{"no JSON", "POST", "/admin/keys", `name=ci`, 400, "invalid_json", ""},
		{"a body over the bound", "POST", "/admin/keys", `{"name":"` + strings.Repeat("n", maxBodyBytes) + `"}`, 413, "request_too_large", ""},
		{"an overlap over the bound", "POST", "/admin/keys/" + dead.ID + "/rotate", `{"overlap":"91d"}`, 400, "invalid_value", "overlap"},
		{"rotating a revoked key", "POST", "/admin/keys/" + dead.ID + "/rotate", ``, 409, "key_revoked", ""},
		{"revoking an unknown key", "DELETE", "/admin/keys/k_0123456789abcdef", ``, 404, "key_not_found", ""},
		{"revoking what is no id", "DELETE", "/admin/keys/%7Bann%7D", ``, 404, "key_not_found", ""},
		{"a bad owner in a list", "GET", "/admin/keys?owner=%7D", ``, 400, "invalid_value", "owner"},
		{"an unknown parameter", "GET", "/admin/keys?limit=1", ``, 400, "invalid_value", "limit"},
		{"another method", "PUT", "/admin/keys", ``, 405, "method_not_allowed", ""},
		{"another path", "GET", "/admin/keys/a/b/c", ``, 404, "not_found", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := call(t, server, row.method, row.path, row.body)
			code, param := errorOf(t, a)
			if a.status != row.status || code != row.code || param != row.param {
				t.Fatalf("answer %d %s", a.status, a.body)
			}
		})
	}
	if log.Len() != 0 {
		t.Fatalf("faults of the client were logged: %s", log)
	}
}

func TestNothingWorksWithoutTheAdminToken(t *testing.T) {
	s := testStore(t, redistest.Embedded(t))
	server, _ := testAPI(t, s)
	_, key := mustCreate(t, s, testRequest())
	for _, authorization := range []string{
		"", "Bearer ", "Bearer wrong", testToken, "bearer " + testToken, "Bearer " + testToken[1:], "Bearer " + testToken + "x", "Basic " + testToken,
	} {
		for _, request := range [][2]string{
			{"GET", "/admin/keys"}, {"POST", "/admin/keys"}, {"DELETE", "/admin/keys/" + key.ID}, {"POST", "/admin/keys/" + key.ID + "/rotate"}, {"GET", "/"},
		} {
			a := callAs(t, server, authorization, request[0], request[1], `{"name":"ci","plan":"free"}`)
			if code, _ := errorOf(t, a); a.status != 401 || code != "invalid_admin_token" || a.header.Get("WWW-Authenticate") != "Bearer" {
				t.Fatalf("%q got %d %s", authorization, a.status, a.body)
			}
		}
	}
	if read, err := s.Get(t.Context(), key.ID); err != nil || read.State != Active {
		t.Fatalf("the key is %+v, %v", read, err)
	}
	noToken := httptest.NewServer((&API{Store: s}).Handler())
	defer noToken.Close()
	if a := callAs(t, noToken, "Bearer ", "GET", "/admin/keys", ""); a.status != 401 {
		t.Fatalf("an API without a token lets an empty one in: %d", a.status)
	}
}

func TestALostStoreIsA503WithRetryAfterAndIsLogged(t *testing.T) {
	redisServer := redistest.Start(t)
	server, log := testAPI(t, testStore(t, redisServer.Client()))
	redisServer.Kill()
	for _, request := range [][2]string{
		{"GET", "/admin/keys"}, {"POST", "/admin/keys"}, {"DELETE", "/admin/keys/k_0123456789abcdef"}, {"POST", "/admin/keys/k_0123456789abcdef/rotate"},
	} {
		body := ""
		if request[1] == "/admin/keys" {
			body = `{"name":"ci","plan":"free"}`
		}
		log.Reset()
		a := call(t, server, request[0], request[1], body)
		if code, _ := errorOf(t, a); a.status != 503 || code != "key_store_unavailable" || a.header.Get("Retry-After") != "1" {
			t.Fatalf("%v got %d %s", request, a.status, a.body)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 1 {
			t.Fatalf("%v logged %d lines: %s", request, lines, log)
		}
	}
}

func TestReadToken(t *testing.T) {
	for _, row := range []struct{ name, content, token string }{
		{"the line end is left out", testToken + "\n", testToken},
		{"a short token is refused", "short-token\n", ""},
		{"two lines are refused", testToken + "\n" + testToken, ""},
		{"a token that is no ASCII is refused", strings.Repeat("\u00e9", 20), ""},
		{"an empty file is refused", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, []byte(row.content), 0o600); err != nil {
				t.Fatal(err)
			}
			token, err := ReadToken(path)
			if token != row.token || (err == nil) != (row.token != "") || err != nil && strings.Contains(err.Error(), "token-") {
				t.Fatalf("token %q, error %v", token, err)
			}
		})
	}
	if _, err := ReadToken(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Fatal("a missing file is no error")
	}
}

func FuzzKeyAPI(f *testing.F) {
	for _, seed := range []string{`{"name":"ci","plan":"free"}`, `{"name":"ci","plan":"free","expires_in":"90d"}`, `{`, `[]`, `{"name":"\u0000","plan":"free"}`} {
		f.Add(seed)
	}
	api := &API{Store: testStore(f, redistest.Embedded(f)), Token: testToken, PlanExists: func(p string) bool { return p == "free" }}
	handler := api.Handler()
	f.Fuzz(func(t *testing.T, body string) {
		request := httptest.NewRequest("POST", "/admin/keys", strings.NewReader(body))
		request.Header.Set("Authorization", "Bearer "+testToken)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, request)
		switch w.Code {
		case http.StatusCreated, http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		default:
			t.Fatalf("%q got %d %s", body, w.Code, w.Body)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%q got %s", body, w.Body)
		}
	})
}
