package auth

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mete/auth/redistest"
)

// The plaintext of a key is in the answer that hands it out and nowhere else:
// not in the log, another answer, an error, or any byte that reached Redis.
func TestKeyMaterialIsNowhereButInTheAnswerThatHandsItOut(t *testing.T) {
	redisServer := redistest.Start(t)
	s := testStore(t, redisServer.Client())
	server, log := testAPI(t, s)
	client, err := NewClient(server.URL, testToken)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, said := t.Context(), &strings.Builder{}

	made, err := client.Create(ctx, "ci", "ann", "free", "90d")
	if err != nil {
		t.Fatal(err)
	}
	next, err := client.Rotate(ctx, made.ID, "1h")
	if err != nil {
		t.Fatal(err)
	}
	revoked, err := client.Revoke(ctx, made.ID)
	fmt.Fprintf(said, "%+v %+v %+v %v\n", made.Key, next.Key, revoked, err)
	for key, err := range client.Keys(ctx, "") {
		fmt.Fprintf(said, "%+v %v\n", key, err)
	}
	for _, misplaced := range []func() error{
		func() error { _, err := client.Create(ctx, made.Plaintext, "ann", "free", ""); return err },
		func() error { _, err := client.Create(ctx, "ci", made.Plaintext, "free", ""); return err },
		func() error { _, err := client.Create(ctx, "ci", "ann", made.Plaintext, ""); return err },
		func() error { _, err := client.Create(ctx, "ci", "ann", "free", made.Plaintext); return err },
		func() error { _, err := client.Rotate(ctx, made.Plaintext, "1h"); return err },
		func() error { _, err := client.Rotate(ctx, next.ID, made.Plaintext); return err },
		func() error { _, err := client.Revoke(ctx, made.Plaintext); return err },
	} {
		err := misplaced()
		if err == nil {
			t.Fatal("a key was taken as something else")
		}
		fmt.Fprintln(said, err)
	}
	fmt.Fprintln(said, call(t, server, "POST", "/admin/keys", `{"`+made.Plaintext+`":"`+made.Plaintext+`"}`))
	fmt.Fprintln(said, call(t, server, "GET", "/admin/keys?"+made.Plaintext+"=1", ""))
	for key, err := range client.Keys(ctx, made.Plaintext) {
		fmt.Fprintf(said, "%+v %v\n", key, err)
	}
	redisServer.Kill()
	_, err = client.Revoke(ctx, next.ID)
	fmt.Fprintln(said, err, log)

	if !strings.Contains(log.String(), made.ID) || !strings.Contains(said.String(), "key store") {
		t.Fatalf("the test has not seen what it searches:\n%s\n%s", log, said)
	}
	searched := map[string]string{"answers, errors and log": said.String()}
	readFiles(t, redisServer.Dir(), searched)
	for where, text := range searched {
		for _, secret := range []string{made.Plaintext, next.Plaintext, testToken, "a pepper for tests"} {
			if strings.Contains(text, secret) || strings.Contains(text, strings.TrimPrefix(secret, "sk-mete-")) {
				t.Errorf("a secret is in %s", where)
			}
		}
	}
}

// readFiles adds every file below dir: Redis appends all writes to one of them.
func readFiles(t *testing.T, dir string, into map[string]string) {
	t.Helper()
	total := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		into[path], total = string(content), total+len(content)
		return err
	})
	if err != nil || total == 0 {
		t.Fatalf("Redis wrote %d bytes: %v", total, err)
	}
}
