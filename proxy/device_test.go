package proxy

import (
	"context"
	"strings"
	"testing"

	"mete/config"
	"mete/devicecode"
)

func TestDeviceRoutesAreHandedWhatTheyNeed(t *testing.T) {
	asked := make(chan devicecode.Request, 1)
	r := newRig(t, withConfig(func(cfg *config.Config) { cfg.TrustedProxies = []string{"127.0.0.1"} }), func(_ *config.Config, r *rig) {
		r.deviceToken = func(_ context.Context, q devicecode.Request) devicecode.Response {
			q.Body = []byte(string(q.Body)) // it is valid during the call only
			asked <- q
			return devicecode.Response{Status: 400, Header: map[string]string{"Cache-Control": "no-store"}, Body: []byte(`{"error":"access_denied"}`)}
		}
	})
	response := r.post("/v1/auth/device/token", `{"device_code":"x"}`, "Authorization", "", "X-Forwarded-For", "6.6.6.6, 192.0.2.7")
	got := <-asked
	if string(got.Body) != `{"device_code":"x"}` || got.ContentType != "application/json" || got.Address.String() != "192.0.2.7" {
		t.Errorf("the route got %+v, body %q", got, got.Body)
	}
	if text := readBody(t, response); response.StatusCode != 400 || text != `{"error":"access_denied"}` || response.Header.Get("Cache-Control") != "no-store" || response.Header.Get("x-request-id") == "" {
		t.Errorf("the client got %d %s %v", response.StatusCode, text, response.Header)
	}
	r.post("/v1/auth/device/token", strings.Repeat("x", 1<<20))
	if n := len((<-asked).Body); n <= devicecode.MaxBody || n > firstRead {
		t.Errorf("%d bytes of a long body were handed over", n)
	}
	wantError(t, r.post("/v1/auth/device/code", ""), 404, "unknown_url", "")
}
