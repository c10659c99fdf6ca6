package main

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"mete/auth"
	"mete/auth/redistest"
)

const keysTestToken = "an-admin-token-for-tests"

// keysGateway is the admin listener's key API on the embedded store.
func keysGateway(t *testing.T) (url, tokenFile string) {
	t.Helper()
	pepper, err := auth.RandomPepper()
	if err != nil {
		t.Fatal(err)
	}
	peppers, err := auth.NewPeppers(pepper)
	if err != nil {
		t.Fatal(err)
	}
	api := &auth.API{
		Store: auth.NewStore(redistest.Embedded(t), "mete", peppers), Token: keysTestToken, Log: zerolog.Nop(),
		PlanExists: func(plan string) bool { return plan == "free" },
	}
	server := httptest.NewServer(api.Handler())
	t.Cleanup(server.Close)
	tokenFile = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte(keysTestToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL, tokenFile
}

func keysRun(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := keysCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func TestKeysCommandGoesThroughAKeysWholeLife(t *testing.T) {
	url, tokenFile := keysGateway(t)
	run := func(args ...string) (string, string) {
		t.Helper()
		stdout, stderr, err := keysRun(t, append(args, "--admin", url, "--token-file", tokenFile)...)
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return stdout, stderr
	}
	if stdout, _ := run("list", "--json"); stdout != "[]\n" {
		t.Fatalf("an empty list is %q", stdout)
	}
	stdout, stderr := run("create", "--name", "laptop", "--plan", "free", "--owner", "ann", "--expires", "90d")
	key := regexp.MustCompile(`\Ask-mete-[0-9a-f]{40}\n\z`)
	if !key.MatchString(stdout) || !strings.Contains(stderr, "laptop of ann") || strings.Contains(stderr, strings.TrimSpace(stdout)) {
		t.Fatalf("create printed %q and %q", stdout, stderr)
	}
	id := regexp.MustCompile(`k_[0-9a-f]{16}`).FindString(stderr)

	stdout, stderr = run("rotate", id, "--overlap", "1h", "--json")
	var next struct{ ID, Key, Owner string }
	if err := json.Unmarshal([]byte(stdout), &next); err != nil || !key.MatchString(next.Key+"\n") || next.Owner != "ann" {
		t.Fatalf("rotate printed %q: %v", stdout, err)
	}
	if !strings.Contains(stderr, id+" works for 1h more") {
		t.Fatalf("rotate said %q", stderr)
	}
	if stdout, _ = run("revoke", next.ID); !strings.HasPrefix(stdout, "revoked "+next.ID) {
		t.Fatalf("revoke printed %q", stdout)
	}
	stdout, _ = run("list", "--owner", "ann")
	row := regexp.MustCompile(`(?m)^` + next.ID + ` +laptop +ann +free +\.\.\.` + next.Key[44:] + ` +revoked `)
	if !strings.HasPrefix(stdout, "ID ") || !row.MatchString(stdout) || !strings.Contains(stdout, id) || strings.Contains(stdout, next.Key) {
		t.Fatalf("list printed\n%s", stdout)
	}
	var keys []auth.Key
	stdout, _ = run("list", "--json")
	if err := json.Unmarshal([]byte(stdout), &keys); err != nil || len(keys) != 2 || keys[0].ID != id {
		t.Fatalf("list printed %s: %v", stdout, err)
	}
}

func TestKeysCommandSaysWhatIsWrong(t *testing.T) {
	url, tokenFile := keysGateway(t)
	wrongToken := filepath.Join(t.TempDir(), "wrong")
	if err := os.WriteFile(wrongToken, []byte("some-other-admin-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, row := range []struct {
		name string
		args []string
		want string
	}{
		{"no token file is named", []string{"list", "--admin", url}, `"token-file" not set`},
		{"the token file is missing", []string{"list", "--admin", url, "--token-file", tokenFile + "x"}, "admin token: open"},
		{"the token is another", []string{"list", "--admin", url, "--token-file", wrongToken}, "refuses the admin token"},
		{"no gateway is there", []string{"list", "--admin", gone.URL, "--token-file", tokenFile}, "no answer from a gateway's admin listener at " + gone.URL},
		{"the plan is unknown", []string{"create", "--name", "ci", "--plan", "gold", "--admin", url, "--token-file", tokenFile}, "plan: is not a plan of the configuration"},
		{"the name is missing", []string{"create", "--plan", "free", "--admin", url, "--token-file", tokenFile}, `"name" not set`},
		{"the id is unknown", []string{"revoke", "k_0123456789abcdef", "--admin", url, "--token-file", tokenFile}, "there is no key with this id"},
		{"the id is missing", []string{"rotate", "--admin", url, "--token-file", tokenFile}, "accepts 1 arg(s), received 0"},
	} {
		t.Run(row.name, func(t *testing.T) {
			stdout, _, err := keysRun(t, row.args...)
			if err == nil || !strings.Contains(err.Error(), row.want) || stdout != "" {
				t.Fatalf("error %v, output %q", err, stdout)
			}
		})
	}
}
