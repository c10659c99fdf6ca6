package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"mete/config"
)

func TestExpectationIsMetHoweverItIsSpelled(t *testing.T) {
	r := newRig(t)
	for _, expect := range []string{"Expect: 100-continue", "expect: 100-continue", "EXPECT: 100-CONTINUE", "Expect: 100-Continue"} {
		t.Run(expect, func(t *testing.T) {
			client := r.open(fmt.Sprintf("%s%s\r\nContent-Length: %d\r\n\r\n", postHead("/v1/chat/completions"), expect, len(chatBody)))
			client.T = t
			if response := client.answer("POST"); response.StatusCode != 100 {
				t.Fatalf("got %d", response.StatusCode)
			}
			client.send(chatBody)
			if response := client.answer("POST"); response.StatusCode != 200 {
				t.Errorf("got %d behind the body", response.StatusCode)
			}
		})
	}
}

// TestRefusalReachesAClientThatDidNotWaitToSend: the body is on its way when
// the gateway has refused it. Where it was not announced with an expectation,
// the connection is not reset either.
func TestRefusalReachesAClientThatDidNotWaitToSend(t *testing.T) {
	r := newRig(t)
	const size = 200_000
	for name, expect := range map[string]string{"no expectation": "", "an expectation": "Expect: 100-continue\r\n"} {
		t.Run(name, func(t *testing.T) {
			client := r.open(fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n", expect, size))
			client.T = t
			client.send(strings.Repeat("x", size))
			wantError(t, client.answer("POST"), 401, "missing_api_key", "")
			if expect == "" {
				_ = client.CloseWrite()
				client.wantEnd()
			}
		})
	}
}

func TestPanicBeforeABodyThatIsWaitedForIsA500(t *testing.T) {
	r := newRig(t)
	limiter := r.gateway.limiter
	r.gateway.limiter = nil
	client := r.open(postHead("/v1/chat/completions") + "Expect: 100-continue\r\nContent-Length: 63\r\n\r\n")
	wantError(t, client.answer("POST"), 500, "internal_error", "")
	client.wantEnd()
	r.gateway.limiter = limiter
	r.wantCounted("panics_total", map[string]float64{"": 1})
}

func TestHeaderThatIsTooLargeIsRefused(t *testing.T) {
	r := newRig(t)
	client := r.open("GET /v1/models HTTP/1.1\r\nHost: x\r\nCookie: " + strings.Repeat("x", 40_000) + "\r\n\r\n")
	wantError(t, client.answer("GET"), 431, "header_too_large", "")
	r.wantCounted("refusals_total", map[string]float64{"header_too_large caller": 1})
	if line := r.log.String(); !strings.Contains(line, `"code":"header_too_large"`) {
		t.Errorf("log %q", line)
	}
}

func TestModelWhoseNameHasASlashIsInTheCatalogue(t *testing.T) {
	r := newRig(t, withConfig(func(c *config.Config) {
		c.Models = append(c.Models, config.Model{ID: "org/m", Pool: "general", Created: c.Models[0].Created, ContextWindow: 100, Root: "x"})
	}))
	for _, path := range []string{"/v1/models/org/m", "/v1/models/org%2Fm", "/v1/models/org%2fm"} {
		response, err := r.client.Get(r.url + path)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK || !strings.Contains(string(text), `"id":"org/m"`) {
			t.Errorf("%s: %d %s", path, response.StatusCode, text)
		}
	}
}
