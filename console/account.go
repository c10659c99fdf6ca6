package console

import (
	"net/http"
)

// accountView is a person's own page.
type accountView struct {
	Person Person
	Admin  bool
	Plans  []string
	Error  string
}

func (v *visit) accountPage() error { return v.showAccount(http.StatusOK, "") }

func (v *visit) showAccount(status int, text string) error {
	return v.views.render(v.w, status, "account", v.frame("Account", "account", accountView{v.person, v.admin, v.plans, text}))
}

// changePassword ends all other sessions of the person.
func (v *visit) changePassword() error {
	if v.person.Way != "local" {
		return errNoPage
	}
	undo, err := v.tryToSignIn(v.person.Owner)
	if err != nil {
		return err
	}
	_, ok, err := v.checkPassword(v.r.Context(), v.person.Owner, v.r.PostFormValue("old"))
	if err != nil {
		return err
	}
	if !ok {
		return v.showAccount(http.StatusForbidden, "The present password is another.")
	}
	undo(v.r.Context())
	fresh := v.r.PostFormValue("new")
	if fresh != v.r.PostFormValue("again") {
		return v.showAccount(http.StatusBadRequest, "The two new passwords differ.")
	}
	if fresh == v.r.PostFormValue("old") {
		return v.showAccount(http.StatusBadRequest, "Choose another password than the present one.")
	}
	if text := checkPassword(fresh, v.person.Owner); text != "" {
		return v.showAccount(http.StatusBadRequest, text)
	}
	hash, err := v.hasher.hash(v.r.Context(), fresh)
	if err != nil {
		return err
	}
	return v.renew("password changed", "/keys?done=password", func(p *Person) { p.Password, p.MustChange = hash, false })
}

func (v *visit) signOutEverywhere() error {
	return v.renew("signed out everywhere", "/account?done=sessions", func(*Person) {})
}

// renew changes the person and ends every session but a new one for this browser.
func (v *visit) renew(what, next string, change func(*Person)) error {
	person, err := v.people.update(v.r.Context(), v.person.Owner, func(p *Person) error {
		p.Epoch++
		change(p)
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := v.sessions.open(v.w, v.r, person); err != nil {
		return err
	}
	v.Record(v.r.Context(), Event{What: what, Who: person.Owner, Owner: person.Owner, Address: v.address.String()})
	return v.redirect(next)
}
