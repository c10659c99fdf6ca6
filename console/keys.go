package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"
)

// keysView is the page of a person's keys.
type keysView struct {
	APIURL string
	Active []keyRow
	Dead   []keyRow
	Today  totals
}

// keyRow is a key with what it did in the last 24 hours.
type keyRow struct {
	Key
	Day   totals
	Chart chart
}

func (v *visit) keysPage() error {
	keys, _, err := v.list(v.r.Context(), v.person.Owner)
	if err != nil {
		return err
	}
	view := keysView{APIURL: v.APIURL}
	rows, err := v.usageOfDay(v.person.Owner)
	if err != nil {
		return err
	}
	for _, key := range v.withUsage(keys, rows) {
		if key.Active() {
			view.Active = append(view.Active, key)
		} else {
			view.Dead = append(view.Dead, key)
		}
	}
	for _, row := range rows {
		view.Today.add(row)
	}
	return v.views.render(v.w, http.StatusOK, "keys", v.frame("Keys", "keys", view))
}

// mostListed bounds what one page shows and one request reads.
const mostListed = 1000

// list returns keys, the newest first, and whether there are more.
func (v *visit) list(ctx context.Context, owner string) (keys []Key, more bool, err error) {
	for key, err := range v.Keys.List(ctx, owner) {
		if err != nil {
			return nil, false, err
		}
		if len(keys) == mostListed {
			more = true
			break
		}
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID))
	})
	return keys, more, nil
}

func (v *visit) usageOfDay(owner string) ([]UsageRow, error) {
	now := time.Now()
	return v.Usage(v.r.Context(), owner, lastDay(now).start, now)
}

func (v *visit) withUsage(keys []Key, rows []UsageRow) []keyRow {
	byKey := map[string][]UsageRow{}
	for _, row := range rows {
		byKey[row.KeyID] = append(byKey[row.KeyID], row)
	}
	listed := make([]keyRow, len(keys))
	for i, key := range keys {
		listed[i] = keyRow{Key: key, Chart: usageChart("Tokens of the last 24 hours", lastDay(time.Now()), byKey[key.ID])}
		for _, row := range byKey[key.ID] {
			listed[i].Day.add(row)
		}
	}
	return listed
}

// lives are what a new key may be given.
var lives = []struct {
	Value, Label string
	Life         time.Duration
}{
	{"30d", "30 days", 30 * 24 * time.Hour},
	{"90d", "90 days", 90 * 24 * time.Hour},
	{"365d", "a year", 365 * 24 * time.Hour},
	{"0", "no end", 0},
}

type newKeyView struct {
	Plans []string
	Lives any
	Once  string // lets the form make one key only
	Error string
}

func (v *visit) newKeyPage() error { return v.showNewKey(http.StatusOK, "") }

func (v *visit) showNewKey(status int, text string) error {
	view := newKeyView{Plans: v.plans, Lives: lives, Once: newPassword(), Error: text}
	return v.views.render(v.w, status, "newkey", v.frame("Create a key", "keys", view))
}

// createdView shows a key, this once.
type createdView struct {
	Key     Key
	Secret  string
	APIURL  string
	EnvName string // of the service's own variable
	Model   string
	Old     *Key // that the key follows
	Overlap string
}

func (v *visit) createKey() error {
	form := v.r.PostForm
	life := slices.IndexFunc(lives, func(l struct {
		Value, Label string
		Life         time.Duration
	}) bool {
		return l.Value == form.Get("life")
	})
	if life < 0 || !slices.Contains(v.plans, form.Get("plan")) {
		return v.showNewKey(http.StatusBadRequest, "Choose a plan and a life from the lists.")
	}
	fresh, err := v.firstTime(form.Get("once"))
	if err != nil {
		return err
	}
	if !fresh {
		return v.redirect("/keys?done=once")
	}
	secret, key, err := v.Keys.Create(v.r.Context(), NewKey{Name: form.Get("name"), Owner: v.person.Owner, Plan: form.Get("plan"), Life: lives[life].Life})
	if invalid := (*Invalid)(nil); errors.As(err, &invalid) {
		return v.showNewKey(http.StatusBadRequest, "The "+invalid.Error()+".")
	}
	if err != nil {
		return err
	}
	v.record("key created", key, "plan "+key.Plan)
	return v.views.render(v.w, http.StatusOK, "created", v.frame("Your new key", "keys", v.created(key, secret)))
}

// firstTime reports whether a form was not sent before: reloading the page that
// shows a key must not make another.
func (v *visit) firstTime(once string) (bool, error) {
	if len(once) > 64 {
		return false, nil
	}
	return v.sessions.rdb.SetNX(v.r.Context(), v.sessions.prefix+"form:"+v.person.Owner+":"+once, "1", time.Hour).Result()
}

func (v *visit) created(key Key, secret string) createdView {
	return createdView{Key: key, Secret: secret, APIURL: v.APIURL, EnvName: envName(v.Service), Model: v.Service}
}

// envName is the variable that holds a key of the service: METE_API_KEY.
func envName(service string) string {
	upper := []byte(service)
	for i := range upper {
		upper[i] -= 'a' - 'A'
	}
	return string(upper) + "_API_KEY"
}

// keyView is the page of one key.
type keyView struct {
	Key      Key
	Mine     bool
	Day      totals
	Tokens   chart
	Requests chart
	Models   []usageLine
	Plans    []Plan // that an admin may put it under
	Error    string
}

func (v *visit) keyPage() error { return v.showKey(http.StatusOK, "") }

func (v *visit) showKey(status int, text string) error {
	key, err := v.key()
	if err != nil {
		return err
	}
	all, err := v.usageOfDay(key.Owner)
	if err != nil {
		return err
	}
	rows := slices.DeleteFunc(all, func(r UsageRow) bool { return r.KeyID != key.ID })
	s := lastDay(time.Now())
	view := keyView{
		Key: key, Mine: key.Owner == v.person.Owner, Error: text,
		Tokens: usageChart("Tokens by hour", s, rows), Requests: requestChart("Requests by hour", s, rows),
		Models: usageLines(rows, func(r UsageRow) string { return r.Model }),
	}
	for _, row := range rows {
		view.Day.add(row)
	}
	if v.admin {
		view.Plans = v.Plans()
	}
	return v.views.render(v.w, status, "key", v.frame(key.Name, "keys", view))
}

// key is the one that the path names, if the person may see it.
func (v *visit) key() (Key, error) {
	key, err := v.Keys.Get(v.r.Context(), v.r.PathValue("id"))
	if err == nil && key.Owner != v.person.Owner && !v.admin {
		err = ErrNotFound
	}
	return key, err
}

func (v *visit) renameKey() error {
	key, err := v.key()
	if err != nil {
		return err
	}
	renamed, err := v.Keys.Rename(v.r.Context(), key.ID, v.r.PostFormValue("name"))
	if invalid := (*Invalid)(nil); errors.As(err, &invalid) {
		return v.showKey(http.StatusBadRequest, "The "+invalid.Error()+".")
	}
	if err != nil {
		return err
	}
	v.record("key renamed", renamed, "before: "+key.Name)
	return v.redirect("/keys/" + key.ID + "?done=renamed")
}

// overlaps are how long a key may go on working beside the one that follows it.
var overlaps = map[string]time.Duration{"0": 0, "1h": time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour}

func (v *visit) rotateKey() error {
	old, err := v.key()
	if err != nil {
		return err
	}
	overlap, ok := overlaps[v.r.PostFormValue("overlap")]
	// Whoever sees the new key has it: that is for its owner alone.
	if !ok || old.Owner != v.person.Owner {
		return ErrNotFound
	}
	secret, key, err := v.Keys.Rotate(v.r.Context(), old.ID, overlap)
	if err != nil {
		return err
	}
	v.record("key rotated", key, "follows "+old.ID)
	view := v.created(key, secret)
	view.Old, view.Overlap = &old, "not any more"
	if overlap > 0 {
		view.Overlap = "for " + inWords(overlap) + " more at most"
	}
	return v.views.render(v.w, http.StatusOK, "created", v.frame("Your new key", "keys", view))
}

func (v *visit) revokeKey() error {
	key, err := v.key()
	if err != nil {
		return err
	}
	if _, err := v.Keys.Revoke(v.r.Context(), key.ID); err != nil {
		return err
	}
	v.record("key revoked", key, "")
	if key.Owner != v.person.Owner {
		return v.redirect("/admin/keys?done=revoked")
	}
	return v.redirect("/keys?done=revoked")
}

func (v *visit) changePlan() error {
	key, err := v.key()
	if err != nil {
		return err
	}
	plan := v.r.PostFormValue("plan")
	if !slices.ContainsFunc(v.Plans(), func(p Plan) bool { return p.Name == plan }) {
		return &Invalid{Param: "plan", Reason: "does not exist"}
	}
	if _, err := v.Keys.SetPlan(v.r.Context(), key.ID, plan); err != nil {
		return err
	}
	v.record("plan changed", key, key.Plan+" to "+plan)
	return v.redirect("/keys/" + key.ID + "?done=plan")
}

func (v *visit) record(what string, key Key, detail string) {
	v.Record(v.r.Context(), Event{What: what, Who: v.person.Owner, Owner: key.Owner, KeyID: key.ID, Address: v.address.String(), Detail: detail})
}
