package auth

import "strings"

// Layout gives the names under which the store keeps its records; doc.go has
// the table. Everything that writes or reads keys, the admission script
// included, takes its names from here.
type Layout struct{ service string }

// NewLayout returns the names of one service's store.
func NewLayout(service string) Layout { return Layout{service: service} }

// Fields of a key's hash. Times are Unix milliseconds, 0 or absent for none.
const (
	FieldName    = "name"
	FieldLast4   = "last4"
	FieldPlan    = "plan"
	FieldDigest  = "digest"
	FieldPepper  = "pepper"
	FieldCreated = "created"
	FieldExpires = "expires"
	FieldRevoked = "revoked"
	FieldOrigin  = "origin"
	FieldUsed    = "used"

	// fieldLifetime is what the key was made with, in milliseconds: rotation
	// gives it to the next key, also when expires has since been brought forward.
	fieldLifetime = "lifetime"
)

// Digest names the string "<id> <owner>" (see SplitDigestValue), which is
// written once and never changed.
func (l Layout) Digest(d Digest) string { return l.digest(d.Hex()) }

func (l Layout) digest(hex string) string { return l.service + ":digest:" + hex }

// Owner is the start of every name that lies in owner's hash slot, "mete:{ann}:".
func (l Layout) Owner(owner string) string { return l.service + ":{" + owner + "}:" }

// Key names the hash of one key.
func (l Layout) Key(owner, id string) string { return l.Owner(owner) + "key:" + id }

// KeyIDs names the set of the ids of all keys of owner.
func (l Layout) KeyIDs(owner string) string { return l.Owner(owner) + "keys" }

// Owners names the set of all owners that ever had a key.
func (l Layout) Owners() string { return l.service + ":owners" }

// OwnerOf names the string that holds the owner of the key with this id.
func (l Layout) OwnerOf(id string) string { return l.service + ":keyid:" + id }

// Marker names the string by which a store that came back empty is told from
// a store that does not know a key.
func (l Layout) Marker() string { return l.service + ":marker" }

// JoinDigestValue is what lies under Layout.Digest.
func JoinDigestValue(id, owner string) string { return id + " " + owner }

// SplitDigestValue takes apart what lies under Layout.Digest; ok is false if
// the value cannot have been written by JoinDigestValue.
func SplitDigestValue(value string) (id, owner string, ok bool) {
	id, owner, found := strings.Cut(value, " ")
	return id, owner, found && isKeyID(id) && CheckOwner(owner) == nil
}
