package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	yaml "github.com/goccy/go-yaml"
)

func TestSecretIsMaskedHoweverItIsPrinted(t *testing.T) {
	const word = "hunter2"
	hexWord := fmt.Sprintf("%x", word)
	holder := struct {
		S Secret
		P *Pool
		L []Secret
	}{word, &Pool{APIKey: word}, []Secret{word}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%10v"} {
		if text := fmt.Sprintf(verb, holder); leaks(text, word) {
			t.Errorf("%s prints the secret: %s", verb, text)
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%10s"} {
		for _, value := range []any{Secret(word), holder.L, *holder.P} {
			if text := fmt.Sprintf(verb, value); leaks(text, word) || leaks(text, hexWord) {
				t.Errorf("%s of %T prints the secret: %s", verb, value, text)
			}
		}
	}
	asJSON, err := json.Marshal(holder)
	if err != nil || leaks(string(asJSON), word) {
		t.Errorf("JSON holds the secret: %s %v", asJSON, err)
	}
	asYAML, err := yaml.Marshal(holder)
	if err != nil || leaks(string(asYAML), word) {
		t.Errorf("YAML holds the secret: %s %v", asYAML, err)
	}
	if got := fmt.Sprintf("%q %q %v", Secret(word), Secret(""), Secret("")); got != `"[secret]" "" ` {
		t.Errorf("got %s", got)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", Secret(word))
	if leaks(log.String(), word) {
		t.Errorf("a log line holds the secret: %s", log.String())
	}
	if Secret(word).Reveal() != word || Secret("").String() != "" || Secret(word).String() != mask {
		t.Error("Reveal or String is wrong")
	}
}

func leaks(text, word string) bool {
	return strings.Contains(strings.ToLower(strings.ReplaceAll(text, " ", "")), word)
}

func TestRedactedHoldsNoSecretAndReadsBack(t *testing.T) {
	full := string(loadFull(t).Redacted())
	for _, secret := range []string{testPepper, "fedcba98", "0123456789abcdef$", "token\"", "s:p@", "password=w"} {
		// The text of a request member is no secret, and holds the pepper here.
		if strings.Contains(strings.ReplaceAll(full, "<b>"+testPepper, ""), secret) {
			t.Errorf("%q is printed:\n%s", secret, full)
		}
	}
	if strings.Count(full, mask) != 8 {
		t.Errorf("%d masks in\n%s", strings.Count(full, mask), full)
	}
	c := loadFull(t)
	c.Redis, c.Keystore = Default().Redis, Keystore{}
	c.Consul.Token, c.Consul.TokenFile = "", ""
	c.Trace.Authorization, c.Trace.AuthorizationFile = "", ""
	c.Console.OIDC.ClientSecret, c.Console.OIDC.ClientSecretFile = "", ""
	pool := c.Pools["a.b"]
	pool.APIKey = ""
	c.Pools["a.b"] = pool
	first := string(c.Redacted())
	again, err := Parse("redacted.yaml", []byte(first))
	if err != nil {
		t.Fatalf("%v in\n%s", err, first)
	}
	if second := string(again.Redacted()); second != first {
		t.Errorf("first\n%s\nsecond\n%s", first, second)
	}
}
