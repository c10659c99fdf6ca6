package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

var timeType = reflect.TypeFor[time.Time]()

// scalar reads one value, with its variables replaced, into v.
func (d *document) scalar(path string, node ast.Node, v reflect.Value) {
	if _, ok := node.(ast.ScalarNode); !ok {
		d.fail(path, "must be one value, not a list or a mapping; put a text with a colon in it into quotation marks")
		return
	}
	raw := rawText(node)
	text, err := expand(raw, d.env)
	if err != nil {
		d.fail(path, "%v", err)
		return
	}
	if err := set(v, text); err != nil {
		// What stands in place of a digest may be the key itself. A Secret has
		// no form that it could miss.
		if _, digest := v.Interface().([32]byte); digest {
			d.fail(path, "%v", err)
			return
		}
		d.fail(path, "%s %v", quote(raw), err)
	}
}

func set(v reflect.Value, text string) error {
	switch target := v.Addr().Interface().(type) {
	case *Size:
		return parseInto(target, text, ParseSize)
	case *time.Duration:
		return parseInto(target, text, ParseDuration)
	case *time.Time:
		return parseInto(target, text, parseDate)
	case *[32]byte:
		return parseInto(target, text, parseDigest)
	case *bool:
		return parseInto(target, text, parseBool)
	case *int:
		n, err := parseInt(text)
		*target = int(n)
		return err
	case *int64:
		return parseInto(target, text, parseInt)
	case *float64:
		return parseInto(target, text, parseNumber)
	}
	v.SetString(text)
	return nil
}

func parseInto[T any](target *T, text string, parse func(string) (T, error)) error {
	value, err := parse(text)
	if err == nil {
		*target = value
	}
	return err
}

func parseDate(text string) (time.Time, error) {
	date, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return date, errors.New("is not a date: write YYYY-MM-DD, like 2026-01-15")
	}
	return date, nil
}

func parseDigest(text string) (digest [32]byte, err error) {
	if strings.HasPrefix(text, "sk-") {
		return digest, errors.New(`holds a key: never write the key itself, write its digest, from printf %s "$KEY" | sha256sum`)
	}
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(digest) {
		return digest, errors.New(`is not 64 hex digits: write the output of printf %s "$KEY" | sha256sum, without the dash`)
	}
	return [32]byte(raw), nil
}

func parseBool(text string) (bool, error) {
	if text != "true" && text != "false" {
		return false, errors.New("is neither true nor false: write one of them")
	}
	return text == "true", nil
}

func parseInt(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	if err != nil {
		return 0, errors.New("is not a whole number: write digits alone, like 60000 or 60_000")
	}
	return n, nil
}

func parseNumber(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, errors.New("is not a number: write one like 0.05")
	}
	return n, nil
}

// rawText returns a scalar as it stands in the file, without its quotation
// marks; nothing for anything else.
func rawText(node ast.Node) string {
	switch scalar := node.(type) {
	case *ast.NullNode:
		return ""
	case *ast.StringNode:
		return scalar.Value
	case *ast.LiteralNode:
		return strings.TrimSuffix(scalar.Value.Value, "\n")
	case ast.ScalarNode:
		return scalar.GetToken().Value
	}
	return ""
}

var variable = regexp.MustCompile(`\$(\$|\{[A-Za-z_][A-Za-z0-9_]*\}|)`)

// expand replaces each ${NAME}, and each $$ by a dollar sign. What a variable
// holds is not looked at again.
func expand(text string, lookup func(string) (string, bool)) (string, error) {
	var lone bool
	var missing []string
	expanded := variable.ReplaceAllStringFunc(text, func(found string) string {
		switch found {
		case "$$":
			return "$"
		case "$":
			lone = true
			return found
		}
		name := found[len("${") : len(found)-1]
		value, ok := lookup(name)
		if !ok {
			missing = append(missing, name)
		}
		return value
	})
	switch {
	case lone:
		return "", errors.New("has a dollar sign that starts no ${NAME}: write $$ for a dollar sign")
	case len(missing) == 1:
		return "", fmt.Errorf("environment variable %s is not set: set it, or write $$ for a dollar sign", missing[0])
	case len(missing) > 1:
		return "", fmt.Errorf("environment variables %s are not set: set them, or write $$ for a dollar sign", strings.Join(missing, ", "))
	}
	return expanded, nil
}

// hint says what could have been meant by a name that is none of known.
func hint(name string, known []string) string {
	best, distance := "", len(name)/3+1
	for _, candidate := range known {
		if d := editDistance(name, candidate); d <= distance {
			best, distance = candidate, d-1
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	const most = 20
	if len(known) > most {
		return "write one of " + strings.Join(known[:most], ", ") + ", ..."
	}
	return "write one of " + strings.Join(known, ", ")
}

// editDistance counts the bytes to insert, remove or replace (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

func contains(names []string, name string) bool { return slices.Contains(names, name) }
