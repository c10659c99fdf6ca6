package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/rs/zerolog"

	"mete/config"
	"mete/console/browsertest"
)

// consoleRig is a gateway with its console, both on loopback, and a browser
// that is signed in there as the first admin.
type consoleRig struct {
	t       *testing.T
	api     string // without /v1
	console string
	tab     *browsertest.Tab
	browser *browsertest.Browser
}

const consolePassword = "four plain words here"

func startConsoleRig(t *testing.T) *consoleRig {
	t.Helper()
	browser := browsertest.Start(t)
	cfg := tryItConfig()
	cfg.Listen = config.Listen{API: "127.0.0.1:0", Console: "127.0.0.1:0", Admin: "127.0.0.1:0"}
	cfg.Console.Plans = []string{"try"}
	cfg.Device.Interval = time.Second
	replicas, err := startReplicas(cfg.Service, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeReplicas(replicas) })
	pool := cfg.Pools["general"]
	for _, r := range replicas {
		pool.Replicas = append(pool.Replicas, r.URL())
	}
	cfg.Pools["general"] = pool
	printed := &announced{done: make(chan struct{})}
	r, err := startAnnouncing(t.Context(), cfg, zerolog.Nop(), printed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	rig := &consoleRig{t: t, api: "http://" + r.api.Addr().String(), console: "http://" + r.pages.Addr().String(), browser: browser}
	<-printed.done
	rig.tab = rig.firstSignIn(regexp.MustCompile(`one-time password: (\S+)`).FindStringSubmatch(printed.text.String())[1])
	return rig
}

// announced is where the first password is printed.
type announced struct {
	text bytes.Buffer
	done chan struct{}
}

func (a *announced) Write(p []byte) (int, error) {
	defer close(a.done)
	return a.text.Write(p)
}

func (c *consoleRig) firstSignIn(password string) *browsertest.Tab {
	c.t.Helper()
	tab := c.browser.Tab(c.t)
	tab.Open(c.console)
	tab.Fill("[name=owner]", "admin")
	tab.Fill("[name=password]", password)
	tab.Submit("form button", "[name=old]")
	tab.Fill("[name=old]", password)
	tab.Fill("[name=new]", consolePassword)
	tab.Fill("[name=again]", consolePassword)
	tab.Submit("form[action$=password] button", ".notice")
	return tab
}

// call uses a key.
func (c *consoleRig) call(key string) (status int, answer string) {
	c.t.Helper()
	body := `{"model":"mete","stream":true,"max_tokens":5,"messages":[{"role":"user","content":"Hello!"}]}`
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.api+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

// begin starts a device login by the service's own face.
func (c *consoleRig) begin(client string) (userCode, deviceCode string) {
	c.t.Helper()
	var code struct {
		UserCode   string `json:"user_code"`
		DeviceCode string `json:"device_code"`
	}
	body, _ := json.Marshal(map[string]string{"client_id": client})
	c.post("/v1/auth/device/code", string(body), &code)
	return code.UserCode, code.DeviceCode
}

func (c *consoleRig) poll(deviceCode string) (answer map[string]any) {
	c.t.Helper()
	c.post("/v1/auth/device/token", `{"device_code":"`+deviceCode+`"}`, &answer)
	return answer
}

func (c *consoleRig) post(path, body string, answer any) {
	c.t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	response, err := client.Post(c.api+path, "application/json", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		c.t.Fatal(err)
	}
}

func TestConsoleInABrowser(t *testing.T) {
	c := startConsoleRig(t)
	t.Run("a login from terminal to streamed answer", c.loginFromTerminal)
	t.Run("a key is created, used and revoked", c.keyInABrowser)
	t.Run("other sites change nothing", c.otherSites)
	t.Run("nothing that is echoed is run", c.scripts)
}

func (c *consoleRig) loginFromTerminal(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("HOME", home)
	c.t, c.tab = t, c.tab.For(t)
	screen, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, _, err := meteTo(t.Context(), out, "login", "--url", c.api, "--no-browser", "--name", "a test's laptop")
		_ = out.Close()
		done <- err
	}()
	code := ""
	lines := bufio.NewScanner(screen)
	for code == "" && lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "and type "); ok {
			code, _, _ = strings.Cut(rest, " ")
		}
	}
	go func() { _, _ = io.Copy(io.Discard, screen) }()
	c.tab.Open(c.console + "/authorize")
	c.tab.Fill("#user_code", strings.ToLower(strings.ReplaceAll(code, "-", "")))
	c.tab.Submit("main form button", ".code.shown")
	if page := c.tab.Text("main"); !strings.Contains(page, "a test's laptop") || !strings.Contains(page, "127.0.0.1") {
		t.Errorf("the page says %s", page)
	}
	c.tab.Submit("[value=approve]", ".seal.done")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home, "mete", "credentials.json")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", info, err)
	}
	env, _, err := mete(t.Context(), "env")
	want := regexp.MustCompile(`^export OPENAI_BASE_URL=` + regexp.QuoteMeta(c.api) + `/v1 OPENAI_API_KEY=(sk-mete-[0-9a-f]{40}) METE_API_KEY=(sk-mete-[0-9a-f]{40})\n$`)
	keys := want.FindStringSubmatch(env)
	if err != nil || keys == nil || keys[1] != keys[2] {
		t.Fatalf("env printed %q, %v", env, err)
	}
	if status, answer := c.call(keys[1]); status != 200 || !strings.HasSuffix(answer, "data: [DONE]\n\n") {
		t.Errorf("the answer: %d %s", status, answer)
	}
	who, _, err := mete(t.Context(), "whoami")
	if err != nil || !strings.Contains(who, "admin") || !strings.Contains(who, "a test's laptop") || !strings.Contains(who, "of 6000 left in any 1m") {
		t.Errorf("whoami printed %s, %v", who, err)
	}
	if _, _, err := mete(t.Context(), "logout"); err != nil {
		t.Error(err)
	}
	if status, _ := c.call(keys[1]); status != 401 {
		t.Errorf("after logout the key gets %d", status)
	}
	if _, _, err := mete(t.Context(), "env"); err == nil {
		t.Error("env prints a key after logout")
	}
}

// meteTo runs a command whose standard error goes to a writer as it comes.
func meteTo(ctx context.Context, errs io.Writer, args ...string) (string, string, error) {
	var out bytes.Buffer
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	return out.String(), "", err
}

func (c *consoleRig) keyInABrowser(t *testing.T) {
	c.t, c.tab = t, c.tab.For(t)
	c.tab.Open(c.console + "/keys/new")
	c.tab.Fill("[name=name]", "browser key")
	c.tab.Submit("main form button", "#secret")
	key := c.tab.Text("#secret")
	if status, answer := c.call(key); status != 200 {
		t.Fatalf("the new key gets %d %s", status, answer)
	}
	if !browsertest.Get(c.tab, chromedp.Evaluate[bool](`!document.querySelector("button.copy").hidden`)) {
		t.Error("there is no copy button")
	}
	c.tab.Open(c.console + "/keys")
	browsertest.Get(c.tab, chromedp.Evaluate[bool](`[...document.querySelectorAll(".keyrow a")].find(a => a.textContent == "browser key").click(), true`))
	c.tab.Submit("section.danger summary", "button.danger")
	c.tab.Submit("button.danger", ".notice")
	if status, _ := c.call(key); status != 401 {
		t.Errorf("the revoked key gets %d", status)
	}
}

// otherSites has the same browser, which is signed in, visit pages of others.
func (c *consoleRig) otherSites(t *testing.T) {
	c.t, c.tab = t, c.tab.For(t)
	code, device := c.begin("a tool")
	evil := http.NewServeMux()
	evil.HandleFunc("/post", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `<form method="post" action="%s/authorize/decide"><input name="user_code" value="%s"><input name="decision" value="approve"><input name="plan" value="try"><input name="token" value="x"></form><script>document.forms[0].submit()</script>`, c.console, code)
	})
	evil.HandleFunc("/frame", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `<iframe id="f" src="%s/authorize?user_code=%s" onload="document.title='loaded'"></iframe>`, c.console, code)
	})
	evil.HandleFunc("/link", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `<a href="%s/authorize?user_code=%s&decision=approve">click</a>`, c.console, code)
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		evil.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	// Another site altogether, and another port of the same host.
	for _, origin := range []string{strings.Replace(server.URL, "127.0.0.1", "localhost", 1), server.URL} {
		c.tab.Do(chromedp.Navigate(origin+"/post"), chromedp.WaitVisible(chromedp.CSS("main .card")))
		// The session's cookie does not come along from another site; from a
		// neighbouring port it does, and the form is refused.
		if page := c.tab.Text("main"); strings.Contains(page, "Approved") {
			t.Errorf("%s: a form of another site gave %s", origin, page)
		}
		c.tab.Open(origin + "/frame")
		browsertest.Get(c.tab, chromedp.Evaluate[bool](`new Promise(r => { const t = setInterval(() => { if (document.title == "loaded") { clearInterval(t); r(true) } }, 20) })`, chromedp.EvalAwaitPromise))
		if frames := c.tab.Frames(); len(frames) != 0 {
			t.Errorf("%s: the page shows in a frame: %v", origin, frames)
		}
		c.tab.Open(origin + "/link")
		c.tab.Submit("a", "#user_code")
		if got := browsertest.Get(c.tab, chromedp.Evaluate[string](`document.getElementById("user_code").value`)); got != code {
			t.Errorf("the link filled in %q", got)
		}
	}
	if got := c.poll(device); got["status"] != "pending" {
		t.Fatalf("something was approved: %v", got)
	}
}

// scripts looks at pages on which somebody else's text stands.
func (c *consoleRig) scripts(t *testing.T) {
	c.t, c.tab = t, c.tab.For(t)
	const evil = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>`
	code, _ := c.begin(evil[:64])
	c.tab.Open(c.console + "/keys/new")
	c.tab.Fill("[name=name]", evil[:64])
	c.tab.Submit("main form button", "#secret")
	look := func(where string) {
		t.Helper()
		found := browsertest.Get(c.tab, chromedp.Evaluate[bool](`window.pwned === 1 || document.querySelector("img") !== null || document.scripts.length != 1`))
		if found {
			t.Errorf("%s runs what somebody wrote", where)
		}
	}
	look("the new key")
	q := url.QueryEscape(evil)
	for _, page := range []string{"/keys", "/admin/keys", "/admin/audit?owner=" + q, "/admin/usage?owner=" + q + "&model=" + q, "/authorize?user_code=" + url.QueryEscape(evil[:32]), "/login?next=" + q} {
		c.tab.Open(c.console + page)
		look(page)
	}
	c.tab.Open(c.console + "/authorize")
	c.tab.Fill("#user_code", code)
	c.tab.Submit("main form button", ".code.shown")
	look("the device's page")
	c.tab.Submit("[value=deny]", ".seal.warn")
	look("the denial")
}
