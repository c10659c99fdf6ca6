package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const base = "models: [{id: mete, pool: g, created: 2026-01-15, context_window: 1}]\n" +
	"pools: {g: {replicas: [\"http://a:1\"]}}\n"

func TestVariables(t *testing.T) {
	lookup := func(name string) (string, bool) {
		value, ok := map[string]string{"A": "1", "_b2": "$$ ${A}", "EMPTY": ""}[name]
		return value, ok
	}
	for in, want := range map[string]string{
		"plain": "plain", "": "", "${A}": "1", "x${A}y${A}": "x1y1", "$$": "$", "$${A}": "${A}", "$$$${A}": "$${A}",
		"$$${A}": "$1", "${_b2}": "$$ ${A}", "${EMPTY}": "",
	} {
		if got, err := expand(in, lookup); got != want || err != nil {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"$", "$A", "${A", "${}", "${1}", "${A-b}", "${NONE}", "a$", "${A}$"} {
		if got, err := expand(in, lookup); err == nil {
			t.Errorf("%q: got %q and no fault", in, got)
		}
	}
}

func TestAVariableCannotAddStructure(t *testing.T) {
	t.Setenv("CONFIG_TEST_INJECT", "mete\nadmin: {x: 1}")
	_, err := Parse("x.yaml", []byte("service: ${CONFIG_TEST_INJECT}\n"+base))
	want := `x.yaml:1:10: service: "${CONFIG_TEST_INJECT}" is not a service word: write exactly 4 lower-case letters, like mete`
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestSecretFilesAreReadFromTheFolderOfTheFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("key", "abc\n")
	write("large", strings.Repeat("x", int(maxSecret)+1))
	write("two-lines", "abc\n\n")
	for file, want := range map[string]string{
		"key": "", filepath.Join(dir, "key"): "", "large": "is larger than 64KiB", "two-lines": "holds a line break",
		"none": "cannot be read: no such file",
	} {
		text := strings.Replace(base, `["http://a:1"]`, `["http://a:1"], api_key_file: "`+file+`"`, 1)
		c, err := Parse(filepath.Join(dir, "mete.yaml"), []byte(text))
		switch {
		case want == "" && (err != nil || c.Pools["g"].APIKey != "abc"):
			t.Errorf("%s: got %v", file, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %s", file, err, want)
		}
	}
}

func TestWhatIsNoMistakeIsAccepted(t *testing.T) {
	for name, text := range map[string]string{
		"both listeners on a port of the system's choice": `listen: {api: "127.0.0.1:0", admin: "127.0.0.1:0"}`,
		"one port on two addresses":                       `listen: {api: "10.0.0.1:80", admin: "127.0.0.1:80"}`,
		"an empty plan":                                   "plans: {free: {}}",
		"a plan without limits":                           "plans: {free: {limits: []}}",
		"windows of one kind over different times":        "plans: {free: {limits: [{tokens: 1, per: 1s}, {tokens: 9, per: 1m}]}}",
		"an empty list of keys":                           "keys: []",
		"a table with Windows line ends":                  "log:\r\n  level: warn\r\n",
		"an anchor that is a text":                        `service: "mete" # &mete *mete`,
	} {
		if _, err := Parse("x.yaml", []byte(text+"\n"+base)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDeepNestingIsAFaultAndNoCrash(t *testing.T) {
	for _, open := range []string{"[", "{a: ", "- "} {
		if _, err := Parse("x.yaml", []byte(strings.Repeat(open, 1000))); err == nil {
			t.Errorf("%q many times is accepted", open)
		}
	}
}

func TestHintsForManyNamesAreShort(t *testing.T) {
	var names []string
	for i := range 30 {
		names = append(names, strings.Repeat("x", 10+i))
	}
	got := hint("y", names)
	if want := "write one of " + strings.Join(names[:20], ", ") + ", ..."; got != want {
		t.Errorf("got %s", got)
	}
}

func TestParentUndoesJoinAndIndex(t *testing.T) {
	for _, name := range []string{"a", "a.b", `a."b`, "a]", `"`, `\"`, "é", ""} {
		for _, path := range []string{"pools", "models[3]", `pools."x.y"`} {
			if got := parent(join(path, name)); got != path {
				t.Errorf("parent(%s) = %s", join(path, name), got)
			}
			if got := parent(index(path, 12)); got != path {
				t.Errorf("parent(%s) = %s", index(path, 12), got)
			}
		}
		if got := parent(join("", "a")); got != "" {
			t.Errorf("parent(a) = %s", got)
		}
	}
}

func TestQuotedValuesHideAPasswordAndAreShort(t *testing.T) {
	for in, want := range map[string]string{
		"http://u:p@h:1": `"http://...@h:1"`, "u:p@h:1": `"...@h:1"`, "http://u:p@x@h": `"http://...@h"`,
		"http://h:1": `"http://h:1"`, "a@b": `"a@b"`, "x:\ny@z": `"...@z"`,
		strings.Repeat("é", 70): `"` + strings.Repeat("é", 60) + `..."`,
	} {
		if got := quote(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

// FuzzParse wants no panic, and no fault that holds a secret. A secret is found
// by a word that stands in the file once.
func FuzzParse(f *testing.F) {
	const canary = "c4n4ry"
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml", "../deploy/*.yaml"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte("redis: {url: \"redis://:c4n4ry@h:port\"}\n" + base))
	f.Add([]byte("keystore: {peppers: [{secret: \"c4n4ry\"}], admin_token: 1}\n" + base))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &document{
			name: "fuzz.yaml", places: map[string]place{},
			env: func(name string) (string, bool) { return "value of " + name, name != "NONE" },
			read: func(path string) ([]byte, error) {
				if strings.HasSuffix(path, "none") {
					return nil, fs.ErrNotExist
				}
				return []byte("s3cr3t in a file\n"), nil
			},
		}
		c, err := parse(d, data)
		var faults Faults
		if (c == nil) == (err == nil) || err != nil && (!errors.As(err, &faults) || len(faults) == 0) {
			t.Fatalf("got %v and %v", c, err)
		}
		if err == nil {
			reparse(t, c)
			return
		}
		for _, fault := range faults {
			if fault.Line < 1 || fault.Column < 1 || fault.Message == "" {
				t.Fatalf("a fault without a place: %+v", fault)
			}
		}
		if strings.Contains(err.Error(), "s3cr3t") {
			t.Fatalf("a fault holds the content of a file: %v", err)
		}
		if strings.Count(string(data), canary) == 1 && canaryIsSecret(d, canary) && strings.Contains(err.Error(), canary) {
			t.Fatalf("a fault holds a secret: %v", err)
		}
	})
}

// canaryIsSecret reports whether the word stands in a field that holds secrets.
func canaryIsSecret(d *document, canary string) bool {
	for path, at := range d.places {
		for _, secret := range []string{"url", "secret", "admin_token", "api_key", "sha256"} {
			if strings.HasSuffix(path, "."+secret) && strings.Contains(at.raw, canary) && !strings.Contains(at.raw, "${") {
				return true
			}
		}
	}
	return false
}

// reparse checks that what was accepted can be printed and read again.
func reparse(t *testing.T, c *Config) {
	c.Redis.URL, c.Redis.URLFile, c.Redis.TLS, c.Keystore = Embedded, "", ClientTLS{}, Keystore{}
	for name, pool := range c.Pools {
		pool.APIKey, pool.APIKeyFile = "", ""
		c.Pools[name] = pool
	}
	text := c.Redacted()
	if _, err := Parse("again.yaml", text); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
}

// BenchmarkParse reads a file with 10,000 static keys: a reload must not stall
// a gateway.
func BenchmarkParse(b *testing.B) {
	var text strings.Builder
	text.WriteString(base + "plans: {free: {}}\nkeys:\n")
	const digits = "0123456789abcdef"
	for i := range 10000 {
		name := string([]byte{digits[i>>12&15], digits[i>>8&15], digits[i>>4&15], digits[i&15]})
		text.WriteString("  - {name: k" + name + ", plan: free, sha256: \"" + strings.Repeat(name, 16) + "\"}\n")
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, err := Parse("bench.yaml", []byte(text.String())); err != nil {
			b.Fatal(err)
		}
	}
}
