package console

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"
)

// Caps on sign-ins that fail.
const (
	signInPer     = 10 * time.Minute
	signInsFrom   = 10 // of one address
	signInsAs     = 20 // for one account
	signInsAll    = 100
	signInsAllPer = time.Minute
)

// signInView is the sign-in page.
type signInView struct {
	Next, Owner, Error string
	Local, OIDC        bool
	Label              string
}

func (v *visit) signInPage() error {
	known, err := v.identify()
	if err != nil {
		return err
	}
	if known {
		return v.redirect(localPage(v.r.URL.Query().Get("next")))
	}
	if v.cookies.get(v.r, visitCookie) == "" {
		value := rand.Text()
		v.cookies.set(v.w, visitCookie, value, time.Hour)
		v.r.AddCookie(&http.Cookie{Name: v.cookies.name(visitCookie), Value: value}) //nolint:gosec // not sent: for the form of this answer
	}
	return v.showSignIn(http.StatusOK, signInView{Next: localPage(v.r.URL.Query().Get("next"))})
}

func (v *visit) showSignIn(status int, view signInView) error {
	v.session, v.person = session{}, Person{}
	view.Local, view.OIDC, view.Label = v.Settings.Local, v.provider != nil, v.Settings.OIDC.Label
	return v.views.render(v.w, status, "signin", v.frame("Sign in", "", view))
}

func (v *visit) signInLocally() error {
	if !v.Settings.Local {
		return errNoPage
	}
	if !v.mayPost("") {
		return errForged
	}
	owner, view := v.r.PostFormValue("owner"), signInView{Next: localPage(v.r.PostFormValue("next"))}
	undo, err := v.tryToSignIn(owner)
	if err != nil {
		return err
	}
	person, ok, err := v.checkPassword(v.r.Context(), owner, v.r.PostFormValue("password"))
	if err != nil {
		undo(v.r.Context())
		return err
	}
	if !ok {
		v.Record(v.r.Context(), Event{What: "sign-in refused", Who: knownShape(owner), Owner: knownShape(owner), Address: v.address.String(), Detail: "wrong name or password"})
		view.Owner, view.Error = owner, "That name and password do not belong together."
		return v.showSignIn(http.StatusForbidden, view)
	}
	undo(v.r.Context()) // a right password neither counts nor resets the count
	return v.signIn(identity{owner: owner, way: "local", admin: person.Admin}, view.Next)
}

// tryToSignIn takes an attempt before anything is looked at, so that a flood
// that comes at once is counted, too.
func (v *visit) tryToSignIn(owner string) (undo func(context.Context), err error) {
	undo, wait, err := v.Try(v.r.Context(), []Cap{
		{"signin-from:" + network(v.address), signInsFrom, signInPer},
		{"signin-as:" + knownShape(owner), signInsAs, signInPer},
		{"signin", signInsAll, signInsAllPer},
	})
	if err == nil && wait > 0 {
		err = &TooMany{Wait: wait}
	}
	return undo, err
}

// knownShape keeps what cannot be an owner out of names and logs: somebody may
// have typed a password there.
func knownShape(owner string) string {
	if !ownerShape.MatchString(owner) {
		return "?"
	}
	return owner
}

// checkPassword takes the same time for an account that is not there.
func (v *visit) checkPassword(ctx context.Context, owner, password string) (Person, bool, error) {
	person, err := v.people.get(ctx, owner)
	if err != nil && !errors.Is(err, errNoPerson) {
		return person, false, err
	}
	if len(password) > maxPassword {
		password = ""
	}
	ok, err := v.hasher.matches(ctx, password, person.Password)
	return person, ok && !person.Disabled && person.Way == "local", err
}

// identity is who somebody is, as one of the ways to sign in says.
type identity struct {
	owner, way, subject string
	groups              []string
	admin               bool
}

// signIn opens a session for an identity and goes on to the next page.
func (v *visit) signIn(id identity, next string) error {
	if err := v.enter(id); err != nil {
		return err
	}
	return v.redirect(next)
}

func (v *visit) enter(id identity) error {
	person, err := v.meet(id)
	if err != nil {
		v.Record(v.r.Context(), Event{What: "sign-in refused", Who: knownShape(id.owner), Owner: knownShape(id.owner), Address: v.address.String(), Detail: err.Error()})
		return err
	}
	if v.session, err = v.sessions.open(v.w, v.r, person); err != nil {
		return err
	}
	v.know(person)
	v.Record(v.r.Context(), Event{What: "signed in", Who: person.Owner, Owner: person.Owner, Address: v.address.String(), Detail: id.way})
	return nil
}

var (
	errOwnerShape = errors.New("the name is not one that can own keys")
	errOtherWay   = errors.New("the name belongs to somebody who signs in another way")
	errDisabled   = errors.New("the account is disabled")
)

// meet finds or makes the person of an identity. A name stays with the way, and
// with the provider's subject, by which it first came.
func (v *visit) meet(id identity) (Person, error) {
	if !ownerShape.MatchString(id.owner) {
		return Person{}, errOwnerShape
	}
	now := time.Now().UTC()
	person := Person{Owner: id.owner, Way: id.way, Subject: id.subject, Groups: id.groups, Created: now, SignedIn: now}
	if id.way != "local" {
		made, err := v.people.create(v.r.Context(), person)
		if err != nil || made {
			return person, err
		}
	}
	return v.people.update(v.r.Context(), id.owner, func(p *Person) error {
		switch {
		case p.Way != id.way || p.Subject != id.subject:
			return errOtherWay
		case p.Disabled:
			return errDisabled
		}
		p.SignedIn = now
		if id.way != "local" {
			p.Groups = id.groups
		}
		return nil
	})
}

func (v *visit) signOut() error {
	v.Record(v.r.Context(), Event{What: "signed out", Who: v.person.Owner, Owner: v.person.Owner, Address: v.address.String()})
	if err := v.sessions.close(v.r.Context(), v.w, v.session.id); err != nil {
		return err
	}
	return v.redirect("/login")
}
