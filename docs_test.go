package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"mete/config"
)

// pages are all that people read.
func pages(t *testing.T) map[string]string {
	t.Helper()
	names, _ := filepath.Glob("docs/*.md")
	found := map[string]string{}
	for _, name := range append(names, "README.md", "CONTRIBUTING.md", "CHANGELOG.md") {
		found[name] = read(t, name)
	}
	return found
}

// block is one ```language block, and the HTML comment on the line before it,
// which says why a test leaves it alone.
type block struct{ page, note, language, text string }

var fenced = regexp.MustCompile("(?m)(?:^<!-- (not (?:run|ours): .*) -->\n)?^```([a-z]*)\n((?s:.*?))^```$")

func blocks(t *testing.T, language string) (found []block) {
	t.Helper()
	for page, text := range pages(t) {
		for _, m := range fenced.FindAllStringSubmatch(text, -1) {
			if m[2] == language {
				found = append(found, block{page, m[1], m[2], m[3]})
			}
		}
	}
	if len(found) < 5 {
		t.Fatalf("%d blocks of %s", len(found), language)
	}
	return found
}

// TestYAMLInThePagesLoads fills in what a block leaves out, and lays
// certificates beside it.
func TestYAMLInThePagesLoads(t *testing.T) {
	shippedSecrets(t)
	certs := t.TempDir()
	for name, from := range map[string]string{"cert.pem": "consul-cert.pem", "key.pem": "consul-key.pem", "ca.pem": "ca.pem"} {
		if err := os.WriteFile(filepath.Join(certs, name), []byte(read(t, "config/testdata/"+from)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range blocks(t, "yaml") {
		if b.note != "" {
			continue
		}
		whole := map[string]any{}
		unmarshal(t, b.page, "models: [{id: mete, pool: general, created: \"2026-01-15\", context_window: 32768}]\npools: {general: {replicas: [\"http://10.0.0.5:8000\"]}}", &whole)
		given := map[string]any{}
		unmarshal(t, b.page, b.text, &given)
		maps.Copy(whole, given)
		text, err := yaml.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(certs, "mete.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := config.Load(file); err != nil {
			t.Errorf("%s: %v\nin\n%s", b.page, err, b.text)
		}
	}
}

func unmarshal(t *testing.T, page, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%s: %v\nin\n%s", page, err, text)
	}
}

// TestCommandsInThePagesRun runs every sh block that runs offline, with mete
// on the path.
func TestCommandsInThePagesRun(t *testing.T) {
	shippedSecrets(t)
	bin := t.TempDir()
	succeeds(t, nil, "go", "build", "-o", filepath.Join(bin, "mete"), ".")
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	ran := 0
	for _, b := range blocks(t, "sh") {
		if b.note == "" {
			ran++
			if out, err := exec.Command("sh", "-euc", b.text).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s\n%s", b.page, err, b.text, out)
			}
		}
	}
	if ran == 0 {
		t.Error("no command ran")
	}
}

var meteLine = regexp.MustCompile(`(?m)^mete ([^|#>\[\n]*)`)

// TestCommandsInThePagesExist parses the flags of each mete command, also of
// those that cannot run here.
func TestCommandsInThePagesExist(t *testing.T) {
	seen := 0
	for _, b := range blocks(t, "sh") {
		text := strings.ReplaceAll(b.text, "\\\n", " ")
		for _, m := range meteLine.FindAllStringSubmatch(text, -1) {
			seen++
			command, rest, err := rootCommand().Find(strings.Fields(m[1]))
			if err == nil {
				err = command.ParseFlags(rest)
			}
			if err != nil {
				t.Errorf("%s: mete %s: %v", b.page, m[1], err)
			}
		}
	}
	if seen < 5 {
		t.Errorf("%d commands", seen)
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} (.*)$`)
	notID   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func TestLinksLeadSomewhere(t *testing.T) {
	for page, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
			} else if anchor != "" && !hasHeading(read(t, target), anchor) {
				t.Errorf("%s: %s has no heading #%s", page, target, anchor)
			}
		}
	}
}

// hasHeading makes ids of headings as GitHub does.
func hasHeading(text, id string) bool {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		if strings.ReplaceAll(notID.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-") == id {
			return true
		}
	}
	return false
}

func TestREADMEIsNoManual(t *testing.T) {
	if n := len(read(t, "README.md")); n > 24<<10 {
		t.Errorf("README.md has %d bytes: move reference matter to docs/", n)
	}
}
