package auth

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mete/auth/redistest"
)

func testClient(t *testing.T, url, token string) *Client {
	t.Helper()
	client, err := NewClient(url, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestTheClientSaysWhatIsWrong(t *testing.T) {
	s := testStore(t, redistest.Embedded(t))
	api, _ := testAPI(t, s)
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	redirect := httptest.NewServer(http.RedirectHandler(api.URL, http.StatusTemporaryRedirect))
	t.Cleanup(redirect.Close)
	for _, row := range []struct{ name, url, token, want string }{
		{"nothing listens", gone.URL, testToken, "no answer from a gateway's admin listener at " + gone.URL},
		{"the token is wrong", api.URL, "another-admin-token", "refuses the admin token"},
		{"it is something else", other.URL, testToken, "answered 404 and is no key API"},
		{"it redirects", redirect.URL, testToken, "answered 307 and is no key API"},
		{"the plan is wrong", api.URL, testToken, "plan: is not a plan of the configuration"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := testClient(t, row.url, row.token).Create(t.Context(), "ci", "", "gold", "")
			if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), row.token) {
				t.Fatalf("error is %v", err)
			}
		})
	}
	for _, base := range []string{"", "127.0.0.1:9090", "ftp://127.0.0.1", "http://"} {
		if _, err := NewClient(base, testToken); err == nil {
			t.Errorf("%q was taken as an address", base)
		}
	}
}

func TestKeysMadeByTheClientComeFromTheCLI(t *testing.T) {
	s := testStore(t, redistest.Embedded(t))
	api, _ := testAPI(t, s)
	made, err := testClient(t, api.URL, testToken).Create(t.Context(), "ci", "", "free", "")
	if err != nil || made.Origin != FromCLI || made.Owner != "ci" {
		t.Fatalf("made %+v, %v", made.Key, err)
	}
	a := call(t, api, "POST", "/admin/keys", `{"name":"ci","plan":"free"}`)
	if !strings.Contains(a.body, `"origin":"api"`) {
		t.Fatalf("answer %s", a.body)
	}
}

func TestAListThatBreaksOffIsAnErrorForTheClient(t *testing.T) {
	redisServer := redistest.Start(t)
	s := testStore(t, redisServer.Client())
	broken := ""
	for i := range pageSize + 1 { // the second page holds the broken record
		r := testRequest()
		r.Owner = fmt.Sprintf("owner-%d", i)
		mustCreate(t, s, r)
	}
	n := 0
	for key, err := range s.Keys(t.Context(), "") {
		if n++; err == nil && n == pageSize+1 {
			broken = s.layout.Key(key.Owner, key.ID)
		}
	}
	s.rdb.HSet(t.Context(), broken, FieldCreated, "yesterday")
	api, log := testAPI(t, s)
	var last error
	n = 0
	for _, err := range testClient(t, api.URL, testToken).Keys(t.Context(), "") {
		n, last = n+1, err
	}
	if last == nil || n < 2 || !strings.Contains(last.Error(), "broke off") {
		t.Fatalf("%d keys, then %v", n, last)
	}
	if !strings.Contains(log.String(), "list of keys broke off") {
		t.Fatalf("log: %s", log)
	}
	if whole, err := readAll(t, api, "/admin/keys"); err == nil {
		t.Fatalf("the body of %d bytes ended well", len(whole))
	}
}

func readAll(t *testing.T, server *httptest.Server, path string) ([]byte, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+testToken)
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	return io.ReadAll(response.Body)
}

func TestAListThatLacksItsEndIsAnErrorForTheClient(t *testing.T) {
	for _, body := range []string{
		"", `{`, `{"object":"list","data":[`, `{"object":"list","data":[{"id":"k_1"}`, `{"object":"list","data":[{"id":"k_1"}]`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		var last error
		for _, err := range testClient(t, server.URL, testToken).Keys(t.Context(), "") {
			last = err
		}
		if last == nil || !strings.Contains(last.Error(), "broke off") {
			t.Errorf("after %q: %v", body, last)
		}
		server.Close()
	}
}

func TestTheClientListsAndStopsWhenItsCallerDoes(t *testing.T) {
	s := testStore(t, redistest.Embedded(t))
	for range 3 {
		mustCreate(t, s, testRequest())
	}
	api, _ := testAPI(t, s)
	client, n := testClient(t, api.URL, testToken), 0
	for _, err := range client.Keys(t.Context(), testRequest().Owner) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 3 {
		t.Fatalf("%d keys", n)
	}
	for _, err := range client.Keys(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
}
