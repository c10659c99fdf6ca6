package config

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Redacted returns the whole configuration, defaults included, as YAML in the
// order of the fields, with every secret masked. Parse reads it again when no
// secret is set.
func (c *Config) Redacted() []byte {
	var out bytes.Buffer
	dumpFields(&out, "", "", reflect.ValueOf(*c), reflect.ValueOf(*Default()))
	return out.Bytes()
}

// dumpFields writes the fields of one group of a struct. It leaves out what is
// empty, unless that would mean the default of standard.
func dumpFields(out *bytes.Buffer, indent, group string, v, standard reflect.Value) {
	for _, name := range fieldNames(v.Type(), group) {
		field, ok := fieldByTag(v, group+name)
		if !ok {
			dumpGroup(out, indent, name, group, v, standard)
			continue
		}
		usual, _ := fieldByTag(standard, group+name)
		if !field.IsZero() || !usual.IsZero() {
			fmt.Fprintf(out, "%s%s:", indent, name)
			dumpValue(out, indent, field, usual)
		}
	}
}

// dumpGroup writes the fields of a struct that stand in a mapping of their own.
func dumpGroup(out *bytes.Buffer, indent, name, group string, v, standard reflect.Value) {
	var fields bytes.Buffer
	dumpFields(&fields, indent+"  ", group+name+".", v, standard)
	if fields.Len() > 0 {
		fmt.Fprintf(out, "%s%s:\n%s", indent, name, fields.Bytes())
	}
}

// dumpValue writes what follows the colon or the dash, and ends the line.
func dumpValue(out *bytes.Buffer, indent string, v, standard reflect.Value) {
	if members, ok := v.Interface().([]Member); ok {
		dumpMembers(out, indent+"  ", members)
		return
	}
	if text, ok := dumpScalar(v.Interface()); ok {
		fmt.Fprintf(out, " %s\n", text)
		return
	}
	switch v.Kind() {
	case reflect.Slice:
		dumpList(out, indent+"  ", v)
	case reflect.Map:
		dumpMap(out, indent+"  ", v)
	default:
		out.WriteByte('\n')
		dumpFields(out, indent+"  ", "", v, standard)
	}
}

func dumpList(out *bytes.Buffer, indent string, v reflect.Value) {
	if v.Len() == 0 {
		out.WriteString(" []\n")
		return
	}
	out.WriteByte('\n')
	for i := range v.Len() {
		standard := fresh(v.Type().Elem())
		if v.Index(i).Kind() != reflect.Struct {
			out.WriteString(indent + "-")
			dumpValue(out, indent, v.Index(i), standard)
			continue
		}
		// The first field of a struct stands behind the dash.
		var fields bytes.Buffer
		dumpFields(&fields, indent+"  ", "", v.Index(i), standard)
		out.WriteString(indent + "- " + strings.TrimSpace(fields.String()) + "\n")
	}
}

func dumpMap(out *bytes.Buffer, indent string, v reflect.Value) {
	if v.Len() == 0 {
		out.WriteString(" {}\n")
		return
	}
	names := map[string]struct{}{}
	for _, key := range v.MapKeys() {
		names[key.String()] = struct{}{}
	}
	out.WriteByte('\n')
	for _, name := range sortedKeys(names) {
		fmt.Fprintf(out, "%s%s:", indent, quoteYAML(name))
		dumpValue(out, indent, v.MapIndex(reflect.ValueOf(name)), fresh(v.Type().Elem()))
	}
}

func dumpMembers(out *bytes.Buffer, indent string, members []Member) {
	out.WriteByte('\n')
	for _, m := range members {
		value := bytes.ReplaceAll(m.Value, []byte("$"), []byte("$$"))
		fmt.Fprintf(out, "%s%s: %s\n", indent, quoteYAML(m.Name), value)
	}
}

func dumpScalar(value any) (string, bool) {
	switch value := value.(type) {
	case Secret:
		if value == Embedded {
			return Embedded, true
		}
		return quoteYAML(value.String()), true
	case string:
		return quoteYAML(strings.ReplaceAll(value, "$", "$$")), true
	case time.Duration:
		return FormatDuration(value), true
	case time.Time:
		return value.Format(time.DateOnly), true
	case [32]byte:
		return strconv.Quote(hex.EncodeToString(value[:])), true
	case Size, int, int64, float64, bool:
		return fmt.Sprint(value), true
	}
	return "", false
}

// quoteYAML returns the text in quotation marks: JSON's are YAML's, too.
func quoteYAML(text string) string {
	var out bytes.Buffer
	writeJSONString(&out, text)
	return out.String()
}
