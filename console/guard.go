package console

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// maxForm is the largest body that the console reads.
const maxForm = 64 << 10

// setHeaders says what browsers may do with any page: run our script, use our
// style, send forms to us, and nothing else.
func (c *Console) setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "+
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
}

// visit is one request, and who makes it.
type visit struct {
	*Console
	w       http.ResponseWriter
	r       *http.Request
	address netip.Addr
	session session
	person  Person
	admin   bool
	plans   []string // that the person may have, the first by default
}

// open serves a page that needs nobody to be signed in.
func (c *Console) open(page func(*visit) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := &visit{Console: c, w: w, r: r, address: c.clientOf(r)}
		if err := page(v); err != nil {
			v.fail(err)
		}
	}
}

// member serves a page to whoever is signed in, and takes no form but one of a
// page that this session was shown.
func (c *Console) member(page func(*visit) error) http.HandlerFunc {
	return c.signedIn(func(v *visit) error {
		if v.r.Method == http.MethodPost && !v.mayPost("") {
			return errForged
		}
		return page(v)
	})
}

// signedIn sends whoever is not signed in there first. The page must see for
// itself whether a form is ours.
func (c *Console) signedIn(page func(*visit) error) http.HandlerFunc {
	return c.open(func(v *visit) error {
		switch known, err := v.identify(); {
		case err != nil:
			return err
		case !known:
			return v.askToSignIn()
		case v.person.MustChange && !strings.HasPrefix(v.r.URL.Path, "/account"):
			return v.redirect("/account")
		}
		return page(v)
	})
}

// admins serves a page to admins. To others it is not there.
func (c *Console) admins(page func(*visit) error) http.HandlerFunc {
	return c.member(func(v *visit) error {
		if !v.admin {
			return ErrNotFound
		}
		return page(v)
	})
}

// identify finds out who makes the request; false for nobody.
func (v *visit) identify() (bool, error) {
	user := v.header.user(v.r)
	session, found, err := v.sessions.find(v.r)
	if err != nil {
		return false, err
	}
	// Where a proxy speaks for people, what it says counts, request by request.
	if found && session.Way == "header" && session.Owner != user {
		found = false
	}
	if !found {
		return v.identifyByHeader(user)
	}
	person, err := v.people.get(v.r.Context(), session.Owner)
	if errors.Is(err, errNoPerson) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if person.Disabled || person.Epoch != session.Epoch {
		return false, nil
	}
	v.session = session
	v.know(person)
	return true, nil
}

func (v *visit) know(person Person) {
	v.person, v.admin, v.plans = person, v.people.isAdmin(person), v.people.plans(person)
}

// askToSignIn comes back here afterwards, if this is a page to come back to.
func (v *visit) askToSignIn() error {
	if v.r.Method != http.MethodGet {
		return v.redirect("/login")
	}
	return v.redirect("/login?next=" + url.QueryEscape(v.r.URL.RequestURI()))
}

// redirect goes to a page of ours with a GET.
func (v *visit) redirect(page string) error {
	http.Redirect(v.w, v.r, v.path(page), http.StatusSeeOther)
	return nil
}

// localPage is the page that next names, and home if that is not one of ours.
func localPage(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(next, "/") ||
		strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return "/keys"
	}
	return next
}

// mayPost reports whether a form came from a page of ours, of this session, for
// this purpose.
func (v *visit) mayPost(purpose string) bool {
	return v.sameOrigin() && v.Seals.Genuine(v.formText(purpose), v.r.PostFormValue("token"))
}

// token goes into a form for this purpose; empty: anything but an approval.
func (v *visit) token(purpose string) string { return v.Seals.Token(v.formText(purpose)) }

// formText binds a form to a session, or to a browser that has none yet.
func (v *visit) formText(purpose string) string {
	if v.session.id == "" {
		return "visit " + v.cookies.get(v.r, visitCookie) + " " + purpose
	}
	return "session " + v.session.id + " " + purpose
}

// sameOrigin reads what browsers say of where a request comes from. Under our
// referrer policy Origin is "null" on forms of our own; then Sec-Fetch-Site
// must vouch for them.
func (v *visit) sameOrigin() bool {
	site, origin := v.r.Header.Get("Sec-Fetch-Site"), v.r.Header.Get("Origin")
	if site != "" && site != "same-origin" {
		return false
	}
	if origin == "" || origin == "null" {
		return site == "same-origin"
	}
	return origin == v.origin
}

// clientOf is the address of whoever makes the request, behind trusted proxies.
func (c *Console) clientOf(r *http.Request) netip.Addr {
	return c.Client(peerOf(r), strings.Join(r.Header.Values("X-Forwarded-For"), ","))
}

func peerOf(r *http.Request) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return peer.Addr().Unmap()
}

// network is whom an address stands for: an IPv6 host has a whole /64.
func network(address netip.Addr) string {
	if address.Is6() {
		if prefix, err := address.Prefix(64); err == nil {
			return prefix.Addr().String()
		}
	}
	return address.String()
}
