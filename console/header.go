package console

import (
	"net/http"
	"strings"

	"mete/config"
)

// headerSignIn believes an authenticating proxy, by its address.
type headerSignIn struct {
	settings config.Header
	from     config.Proxies
}

func newHeaderSignIn(s config.Header) *headerSignIn {
	return &headerSignIn{settings: s, from: config.NewProxies(s.From)}
}

// user is who the proxy says it is; empty if nobody that may be believed says so.
func (h *headerSignIn) user(r *http.Request) string {
	if h.settings.User == "" || !h.from.Trusts(peerOf(r)) {
		return ""
	}
	names := r.Header.Values(h.settings.User)
	if len(names) != 1 { // two of them: the proxy added one to the client's own
		return ""
	}
	return strings.ToLower(strings.TrimSpace(names[0]))
}

func (h *headerSignIn) groups(r *http.Request) []string {
	if h.settings.Groups == "" {
		return nil
	}
	var groups []string
	for _, value := range r.Header.Values(h.settings.Groups) {
		for _, group := range strings.Split(value, ",") {
			if group = strings.TrimSpace(group); group != "" {
				groups = append(groups, group)
			}
		}
	}
	return groups
}

// identifyByHeader opens a session for whom the proxy names.
func (v *visit) identifyByHeader(user string) (bool, error) {
	if user == "" {
		return false, nil
	}
	err := v.enter(identity{owner: user, way: "header", groups: v.header.groups(v.r)})
	return err == nil, err
}
