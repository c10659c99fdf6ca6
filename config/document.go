package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// document is a config file on its way to a Config: what is wrong so far, and
// where each field stands.
type document struct {
	name   string
	faults Faults
	places map[string]place
	env    func(name string) (string, bool)
	read   func(path string) ([]byte, error)
}

type position struct{ line, column int }

// place is where a field stands in the file, what stands there if it is a
// scalar, and whether a fault was found in it.
type place struct {
	position
	raw    string
	broken bool
}

// has reports whether the file gives the field, faulty or not.
func (d *document) has(path string) bool {
	_, ok := d.places[path]
	return ok
}

// put remembers where a field stands.
func (d *document) put(path string, at position, raw string) {
	d.places[path] = place{position: at, raw: raw}
}

// fail adds a fault of the field at path, or of its nearest ancestor that
// stands in the file. One fault for a field is enough: it says nothing when
// the field, or what it stands in, has one.
func (d *document) fail(path, format string, args ...any) {
	if d.broken(path) {
		return
	}
	at := d.nearest(path)
	d.note(at, path, format, args...)
	d.places[path] = place{position: at, raw: d.places[path].raw, broken: true}
}

// note adds a fault and leaves the field's own faults to be found.
func (d *document) note(at position, path, format string, args ...any) {
	d.faults = append(d.faults, Fault{
		File: d.name, Line: at.line, Column: at.column,
		Path: path, Message: fmt.Sprintf(format, args...),
	})
}

func (d *document) broken(path string) bool {
	for ; path != ""; path = parent(path) {
		if d.places[path].broken {
			return true
		}
	}
	return d.places[""].broken
}

func (d *document) nearest(path string) position {
	for ; path != ""; path = parent(path) {
		if found, ok := d.places[path]; ok {
			return found.position
		}
	}
	return position{1, 1}
}

// quoted returns what stands in the file at path, fit for a message: short,
// with variables not yet replaced, and without the password of a URL.
func (d *document) quoted(path string) string { return quote(d.places[path].raw) }

// userPart is what stands before the last @ of a URL, if a password can be in
// it.
var userPart = regexp.MustCompile(`(?s)^(.*?://)?.*:.*@`)

func quote(text string) string {
	const most = 60
	text = userPart.ReplaceAllString(text, "${1}...@")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "..."
	}
	return strconv.Quote(text)
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// join returns the path of a field of what is at path.
func join(path, name string) string {
	if !plainName.MatchString(name) {
		name = strconv.Quote(name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// index returns the path of an element of the list at path.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// parent undoes join or index. Quote escapes a quotation mark, so a dot before
// one always starts a name.
func parent(path string) string {
	cut := strings.LastIndexByte(path, '.')
	switch {
	case strings.HasSuffix(path, `"`):
		cut = strings.LastIndex(path, `."`)
	case strings.HasSuffix(path, "]"):
		cut = strings.LastIndexByte(path, '[')
	}
	return path[:max(cut, 0)]
}

func tokenPosition(t *token.Token) position {
	return position{max(t.Position.Line, 1), max(t.Position.Column, 1)}
}
