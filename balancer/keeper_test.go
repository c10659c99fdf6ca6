package balancer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// says writes a list as "a b c?", where a question mark is a suspect and an
// exclamation mark one that is held out otherwise.
func says(list []Endpoint) string {
	var names []string
	for _, e := range list {
		name := strings.TrimPrefix(e.URL, "http://")
		switch e.Held {
		case HeldNot:
		case HeldSuspect:
			name += "?"
		default:
			name += "!"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func listOf(text string) []Endpoint {
	var list []Endpoint
	for _, name := range strings.Fields(text) {
		e := Endpoint{URL: "http://" + strings.TrimSuffix(name, "!")}
		if strings.HasSuffix(name, "!") {
			e.Held = HeldCritical
		}
		list = append(list, e)
	}
	return list
}

func TestWhatAKeeperBelieves(t *testing.T) {
	type step struct {
		after time.Duration
		given string
		want  string
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"an empty list changes nothing", []step{{0, "a b c", "a b c"}, {0, "", "a b c"}, {time.Hour, "", "a b c"}}},
		{"a few may go and come", []step{{0, "a b c d", "a b c d"}, {0, "a b c", "a b c"}, {0, "a b c e", "a b c e"}}},
		{"all may be replaced by as many", []step{{0, "a b", "a b"}, {0, "c d", "c d"}}},
		{"of a halved list the missing are suspects", []step{{0, "a b c d", "a b c d"}, {0, "a b", "a b c? d?"}}},
		{"suspects come back as if nothing had been", []step{{0, "a b c d", "a b c d"}, {0, "a", "a b? c? d?"}, {time.Second, "a b c d", "a b c d"}}},
		{"suspects go after five minutes", []step{
			{0, "a b c d", "a b c d"}, {0, "a", "a b? c? d?"}, {4 * time.Minute, "a", "a b? c? d?"}, {time.Minute, "a", "a"},
		}},
		{"suspects do not count as members", []step{{0, "a b c d", "a b c d"}, {0, "a b", "a b c? d?"}, {time.Second, "a b e", "a b e c? d?"}}},
		{"one that was held out does not become a suspect", []step{{0, "a b c! d", "a b c! d"}, {0, "a", "a b? d?"}}},
		{"a list that halves twice", []step{{0, "a b c d", "a b c d"}, {0, "a b", "a b c? d?"}, {time.Minute, "a", "a b? c? d?"}, {4 * time.Minute, "a", "a b?"}}},
	} {
		k, now := NewKeeper(""), time.Unix(0, 0)
		before := ""
		for i, s := range c.steps {
			now = now.Add(s.after)
			list, changed, err := k.Take(listOf(s.given), now)
			got := says(list)
			if err != nil || got != s.want || changed != (got != before) {
				t.Errorf("%s, step %d: got %q, changed %v, %v; want %q", c.name, i, got, changed, err, s.want)
			}
			before = got
		}
	}
}

func TestAKeeperRemembersOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "general.json")
	k := NewKeeper(path)
	if list, err := k.Restore(); err != nil || list != nil {
		t.Fatalf("with nothing on disk: %v, %v", list, err)
	}
	now := time.Unix(0, 0)
	for _, given := range []string{"a b! c d", "a"} {
		if _, _, err := k.Take(listOf(given), now); err != nil {
			t.Fatal(err)
		}
	}
	k = NewKeeper(path)
	list, err := k.Restore()
	if err != nil || says(list) != "a c? d?" {
		t.Fatalf("restored %q, %v", says(list), err)
	}
	if list, _, _ := k.Take(listOf("a"), now); says(list) != "a c? d?" {
		t.Errorf("restored suspects are gone at once: %q", says(list))
	}
	if list, _, _ := k.Take(listOf("a"), now.Add(suspectFor)); says(list) != "a" {
		t.Errorf("restored suspects stay for ever: %q", says(list))
	}
}

func TestAKeepersDiskTroubleIsToldButHarmless(t *testing.T) {
	k := NewKeeper(filepath.Join(t.TempDir(), "missing", "general.json"))
	list, changed, err := k.Take(listOf("a b"), time.Unix(0, 0))
	if says(list) != "a b" || !changed || err == nil {
		t.Errorf("got %q, %v, %v; want the list and an error", says(list), changed, err)
	}
	path := filepath.Join(t.TempDir(), "general.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewKeeper(path).Restore(); err == nil {
		t.Error("a broken file was restored")
	}
}
