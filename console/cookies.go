package console

import (
	"net/http"
	"time"
)

const (
	sessionCookie = "session"
	visitCookie   = "visit" // binds the sign-in form to a browser
	oidcCookie    = "oidc"  // what a browser went to the provider with
)

// cookies are for this host alone. On loopback without TLS browsers refuse the
// prefix __Host-, so there the names are plain.
type cookies struct {
	service string
	secure  bool
}

func (c cookies) name(name string) string {
	name = c.service + "-" + name
	if c.secure {
		return "__Host-" + name
	}
	return name
}

func (c cookies) get(r *http.Request, name string) string {
	cookie, err := r.Cookie(c.name(name))
	if err != nil || len(cookie.Value) > 4096 {
		return ""
	}
	return cookie.Value
}

func (c cookies) set(w http.ResponseWriter, name, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure wherever there is TLS
		Name: c.name(name), Value: value, Path: "/", MaxAge: int(life / time.Second),
		Secure: c.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

func (c cookies) drop(w http.ResponseWriter, name string) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure wherever there is TLS
		Name: c.name(name), Path: "/", MaxAge: -1, Secure: c.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}
