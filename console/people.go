package console

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"mete/config"
)

// Person is somebody who signed in once, or who has an account here.
type Person struct {
	Owner      string    `json:"owner"`
	Way        string    `json:"way"`               // "local", "oidc", "header"
	Subject    string    `json:"subject,omitempty"` // the provider's own name of a person
	Admin      bool      `json:"admin,omitempty"`   // of a local account
	Groups     []string  `json:"groups,omitempty"`  // at the last sign-in
	Disabled   bool      `json:"disabled,omitempty"`
	Epoch      int       `json:"epoch"` // sessions of another epoch are over
	Password   string    `json:"password,omitempty"`
	MustChange bool      `json:"must_change,omitempty"` // the password is known to somebody else
	Created    time.Time `json:"created"`
	SignedIn   time.Time `json:"signed_in,omitzero"`
}

var errNoPerson = errors.New("there is no such person")

// ownerShape is what an owner of keys may be called.
var ownerShape = regexp.MustCompile(`^[A-Za-z0-9._@+-]{1,64}$`)

// people are the records of persons, and what the settings say of them.
type people struct {
	records
	prefix   string
	settings config.Console
	known    func() []Plan
}

func (p *people) name(owner string) string { return p.prefix + "person:" + owner }
func (p *people) index() string            { return p.prefix + "people" }

// get returns errNoPerson for an owner without a record.
func (p *people) get(ctx context.Context, owner string) (Person, error) {
	if !ownerShape.MatchString(owner) {
		return Person{}, errNoPerson
	}
	var person Person
	raw, err := p.records.get(ctx, p.name(owner), &person)
	if err == nil && raw == "" {
		err = errNoPerson
	}
	return person, err
}

// create writes a new person; false if there is one already.
func (p *people) create(ctx context.Context, person Person) (bool, error) {
	if err := p.rdb.SAdd(ctx, p.index(), person.Owner).Err(); err != nil {
		return false, fmt.Errorf("console store: %w", err)
	}
	return p.swap(ctx, p.name(person.Owner), "", person)
}

// update changes a person's record, starting over when another did meanwhile.
func (p *people) update(ctx context.Context, owner string, change func(*Person) error) (Person, error) {
	for range 10 {
		var person Person
		raw, err := p.records.get(ctx, p.name(owner), &person)
		if err != nil {
			return person, err
		}
		if raw == "" {
			return person, errNoPerson
		}
		if err := change(&person); err != nil {
			return person, err
		}
		done, err := p.swap(ctx, p.name(owner), raw, person)
		if err != nil || done {
			return person, err
		}
	}
	return Person{}, errors.New("console store: record changes too often")
}

// all returns everybody, by owner.
func (p *people) all(ctx context.Context) ([]Person, error) {
	owners, err := p.rdb.SMembers(ctx, p.index()).Result()
	if err != nil {
		return nil, fmt.Errorf("console store: %w", err)
	}
	slices.Sort(owners)
	var everybody []Person
	for _, owner := range owners {
		person, err := p.get(ctx, owner)
		if errors.Is(err, errNoPerson) {
			continue
		}
		if err != nil {
			return nil, err
		}
		everybody = append(everybody, person)
	}
	return everybody, nil
}

// isAdmin and plans are what a person may do by the settings of today.
func (p *people) isAdmin(person Person) bool {
	return person.Admin || slices.Contains(p.settings.Admins, person.Owner) ||
		slices.ContainsFunc(p.groups(person), func(g config.Group) bool { return g.Admin })
}

func (p *people) plans(person Person) []string {
	var all []string
	for _, group := range p.groups(person) {
		all = append(all, group.Plans...)
	}
	all = append(all, p.settings.Plans...)
	exists := map[string]bool{}
	for _, plan := range p.known() {
		exists[plan.Name] = true
	}
	var plans []string
	for _, plan := range all {
		if exists[plan] && !slices.Contains(plans, plan) {
			plans = append(plans, plan)
		}
	}
	return plans
}

func (p *people) groups(person Person) []config.Group {
	var groups []config.Group
	for _, group := range p.settings.Groups {
		if slices.Contains(person.Groups, group.Name) {
			groups = append(groups, group)
		}
	}
	return groups
}

// newPassword is for an account whose owner will choose another: 80 random bits.
func newPassword() string { return strings.ToLower(rand.Text()[:16]) }
