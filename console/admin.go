package console

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
)

// allKeysView is the page of everybody's keys.
type allKeysView struct {
	Owner  string
	Keys   []keyRow
	More   bool
	Owners int
}

func (v *visit) allKeysPage() error {
	owner := strings.TrimSpace(v.r.URL.Query().Get("owner"))
	if owner != "" && !ownerShape.MatchString(owner) {
		owner = ""
	}
	keys, more, err := v.list(v.r.Context(), owner)
	if err != nil {
		return err
	}
	rows, err := v.usageOfDay(owner)
	if err != nil {
		return err
	}
	owners := map[string]bool{}
	for _, key := range keys {
		owners[key.Owner] = true
	}
	view := allKeysView{Owner: owner, Keys: v.withUsage(keys, rows), More: more, Owners: len(owners)}
	return v.views.render(v.w, http.StatusOK, "allkeys", v.frame("All keys", "allkeys", view))
}

// poolsView is the page of pools and replicas.
type poolsView struct {
	Pools []poolRow
	Now   time.Time
}

type poolRow struct {
	Pool
	InFlight int64
	Ready    int
	Rows     []replicaRow
}

type replicaRow struct {
	Replica
	Share int // percent of the pool's answers since the gateway started
}

func (v *visit) poolsPage() error {
	view := poolsView{Now: time.Now()}
	for _, pool := range v.Pools() {
		view.Pools = append(view.Pools, newPoolRow(pool))
	}
	return v.views.render(v.w, http.StatusOK, "pools", v.frame("Pools", "pools", view))
}

func newPoolRow(pool Pool) poolRow {
	row := poolRow{Pool: pool}
	var answered int64
	for _, replica := range pool.Replicas {
		answered += replica.Answered
		row.InFlight += replica.InFlight
		if replica.State == "ready" {
			row.Ready++
		}
	}
	for _, replica := range pool.Replicas {
		share := 0
		if answered > 0 {
			share = int((replica.Answered*100 + answered/2) / answered)
		}
		row.Rows = append(row.Rows, replicaRow{replica, share})
	}
	return row
}

type plansView struct {
	Plans  []Plan
	Groups []groupRow
	All    []string // for everybody
}

type groupRow struct {
	Name  string
	Plans []string
	Admin bool
}

func (v *visit) plansPage() error {
	view := plansView{Plans: v.Plans(), All: v.Settings.Plans}
	for _, group := range v.Settings.Groups {
		view.Groups = append(view.Groups, groupRow{group.Name, group.Plans, group.Admin})
	}
	return v.views.render(v.w, http.StatusOK, "plans", v.frame("Plans", "plans", view))
}

// peopleView is the page of everybody who signed in.
type peopleView struct {
	People   []personRow
	Local    bool
	Made     string // owner of an account that was made or reset
	Password string // of that account, shown this once
	Error    string
}

type personRow struct {
	Person
	Admin bool
	Plans []string
	Self  bool
}

func (v *visit) peoplePage() error { return v.showPeople(http.StatusOK, peopleView{}) }

func (v *visit) showPeople(status int, view peopleView) error {
	everybody, err := v.people.all(v.r.Context())
	if err != nil {
		return err
	}
	view.Local = v.Settings.Local
	for _, person := range everybody {
		view.People = append(view.People, personRow{person, v.people.isAdmin(person), v.people.plans(person), person.Owner == v.person.Owner})
	}
	return v.views.render(v.w, status, "people", v.frame("People", "people", view))
}

// addPerson makes a local account. Its password is shown this once.
func (v *visit) addPerson() error {
	if !v.Settings.Local {
		return errNoPage
	}
	owner := strings.ToLower(strings.TrimSpace(v.r.PostFormValue("owner")))
	if !ownerShape.MatchString(owner) {
		return v.showPeople(http.StatusBadRequest, peopleView{Error: "The name may hold up to 64 letters, digits and . _ @ + - only."})
	}
	password, err := v.newAccount(v.r.Context(), owner, v.r.PostFormValue("admin") == "yes")
	if errors.Is(err, errTaken) {
		return v.showPeople(http.StatusConflict, peopleView{Error: "There is a person of that name already."})
	}
	if err != nil {
		return err
	}
	return v.showPeople(http.StatusOK, peopleView{Made: owner, Password: password})
}

// changePerson disables or enables somebody, or gives a local account a new
// password. Nobody can lock themselves out.
func (v *visit) changePerson() error {
	owner, act := v.r.PathValue("owner"), v.r.PathValue("act")
	change, known := personChanges[act]
	if !known || owner == v.person.Owner {
		return ErrNotFound
	}
	view, hash := peopleView{}, ""
	if act == "reset" {
		view.Made, view.Password = owner, newPassword()
		var err error
		if hash, err = v.hasher.hash(v.r.Context(), view.Password); err != nil {
			return err
		}
	}
	_, err := v.people.update(v.r.Context(), owner, func(p *Person) error { return change.do(p, hash) })
	if err != nil {
		return err
	}
	v.Record(v.r.Context(), Event{What: change.what, Who: v.person.Owner, Owner: owner, Address: v.address.String()})
	if view.Password != "" {
		return v.showPeople(http.StatusOK, view)
	}
	return v.redirect("/admin/people?done=" + act)
}

var personChanges = map[string]struct {
	what string
	do   func(p *Person, hash string) error
}{
	"disable": {"account disabled", func(p *Person, _ string) error { p.Disabled = true; p.Epoch++; return nil }},
	"enable":  {"account enabled", func(p *Person, _ string) error { p.Disabled = false; return nil }},
	"reset": {"password reset", func(p *Person, hash string) error {
		if p.Way != "local" {
			return ErrNotFound
		}
		p.Password, p.MustChange = hash, true
		p.Epoch++
		return nil
	}},
}

// auditView is a page of the audit log.
type auditView struct {
	Events []Event
	Owner  string
	What   string
	Kinds  []string
	Next   string // the event after which older ones follow
}

const eventsOnPage = 50

// kinds are the events that the log holds.
var kinds = []string{
	"account created", "account disabled", "account enabled", "device approved", "device denied", "device refused",
	"key created", "key renamed", "key revoked", "key rotated", "password changed", "password reset", "plan changed",
	"sign-in refused", "signed in", "signed out", "signed out everywhere",
}

func (v *visit) auditPage() error {
	query := v.r.URL.Query()
	view := auditView{Owner: strings.TrimSpace(query.Get("owner")), What: query.Get("what"), Kinds: kinds}
	for event, err := range v.audit.Events(v.r.Context(), query.Get("before")) {
		if err != nil {
			return err
		}
		if !view.wants(event) {
			continue
		}
		if len(view.Events) == eventsOnPage {
			view.Next = view.Events[eventsOnPage-1].ID
			break
		}
		view.Events = append(view.Events, event)
	}
	return v.views.render(v.w, http.StatusOK, "audit", v.frame("Audit log", "audit", view))
}

func (a auditView) wants(e Event) bool {
	return (a.What == "" || a.What == e.What || !slices.Contains(kinds, a.What)) && (a.Owner == "" || a.Owner == e.Owner || a.Owner == e.Who)
}
