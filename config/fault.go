package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong in a config file.
type Fault struct {
	// File is the name that was given to Load or Parse.
	File string
	// Line and Column count from 1; Column counts characters.
	Line, Column int
	// Path leads to the field, like models[1].pool; empty for the file as a
	// whole.
	Path string
	// Message says what is wrong and what to change. It holds no secret.
	Message string
}

// Error returns file:line:column: path: message.
func (f Fault) Error() string {
	if f.Path == "" {
		return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s", f.File, f.Line, f.Column, f.Path, f.Message)
}

// Faults are all that is wrong in a config file, in the order of the file.
type Faults []Fault

// Error returns one line for each fault.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// sort puts the faults into the order of the file.
func (f Faults) sort() {
	slices.SortStableFunc(f, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
