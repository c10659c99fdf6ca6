package console

import "net/http"

func (c *Console) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /assets/{file}", c.views.asset)
	mux.HandleFunc("GET /{$}", c.open(func(v *visit) error { return v.redirect("/keys") }))
	mux.HandleFunc("/", c.open(func(*visit) error { return errNoPage }))

	mux.HandleFunc("GET /login", c.open((*visit).signInPage))
	mux.HandleFunc("POST /login", c.open((*visit).signInLocally))
	mux.HandleFunc("GET /login/oidc", c.open((*visit).goToProvider))
	mux.HandleFunc("GET /login/callback", c.open((*visit).comeFromProvider))
	mux.HandleFunc("POST /logout", c.member((*visit).signOut))
	mux.HandleFunc("GET /account", c.member((*visit).accountPage))
	mux.HandleFunc("POST /account/password", c.member((*visit).changePassword))
	mux.HandleFunc("POST /account/sessions", c.member((*visit).signOutEverywhere))

	if c.Devices.LookUp != nil {
		mux.HandleFunc("GET /authorize", c.member((*visit).codePage))
		mux.HandleFunc("POST /authorize", c.member((*visit).devicePage))
		mux.HandleFunc("POST /authorize/decide", c.signedIn((*visit).decide))
	}
	mux.HandleFunc("GET /keys", c.member((*visit).keysPage))
	mux.HandleFunc("GET /keys/new", c.member((*visit).newKeyPage))
	mux.HandleFunc("POST /keys", c.member((*visit).createKey))
	mux.HandleFunc("GET /keys/{id}", c.member((*visit).keyPage))
	mux.HandleFunc("POST /keys/{id}/rename", c.member((*visit).renameKey))
	mux.HandleFunc("POST /keys/{id}/rotate", c.member((*visit).rotateKey))
	mux.HandleFunc("POST /keys/{id}/revoke", c.member((*visit).revokeKey))
	mux.HandleFunc("POST /keys/{id}/plan", c.admins((*visit).changePlan))

	mux.HandleFunc("GET /admin/keys", c.admins((*visit).allKeysPage))
	mux.HandleFunc("GET /admin/usage", c.admins((*visit).usagePage))
	mux.HandleFunc("GET /admin/usage.csv", c.admins((*visit).usageCSV))
	mux.HandleFunc("GET /admin/pools", c.admins((*visit).poolsPage))
	mux.HandleFunc("GET /admin/plans", c.admins((*visit).plansPage))
	mux.HandleFunc("GET /admin/people", c.admins((*visit).peoplePage))
	mux.HandleFunc("POST /admin/people", c.admins((*visit).addPerson))
	mux.HandleFunc("POST /admin/people/{owner}/{act}", c.admins((*visit).changePerson))
	mux.HandleFunc("GET /admin/audit", c.admins((*visit).auditPage))
	mux.HandleFunc("GET /admin/audit.csv", c.admins((*visit).auditCSV))
	return mux
}
