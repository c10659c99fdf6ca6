package config

import (
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// value reads node into v. What cannot be read is a fault and leaves v as it
// was.
func (d *document) value(path string, node ast.Node, v reflect.Value) {
	if d.foreign(path, node) {
		return
	}
	switch target := v.Addr().Interface().(type) {
	case *[]Member:
		*target = d.members(path, node)
		return
	case *[32]byte:
		d.scalar(path, node, v)
		return
	case *[]Service:
		*target = d.services(path, node)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == timeType {
			d.scalar(path, node, v)
			return
		}
		d.object(path, "", node, v)
	case reflect.Map:
		d.mapping(path, node, v)
	case reflect.Slice:
		d.list(path, node, v)
	default:
		d.scalar(path, node, v)
	}
}

// foreign notes the parts of YAML that a config file has no use for.
func (d *document) foreign(path string, node ast.Node) bool {
	switch node.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		d.fail(path, "is an anchor or alias, which are not known here: write the value out")
	case *ast.TagNode:
		d.fail(path, "has a tag, which are not known here: remove the word that starts with !")
	case *ast.NullNode:
		d.fail(path, "has no value: write one, or remove the line")
	default:
		return false
	}
	return true
}

// object reads a mapping whose names are the fields of a struct. group is the
// first part of the tags that are meant, for fields that stand in a mapping of
// their own in the file: models.allow.
func (d *document) object(path, group string, node ast.Node, v reflect.Value) {
	known := fieldNames(v.Type(), group)
	d.entries(path, node, func(name string, at position, value ast.Node) {
		inner := join(path, name)
		field, ok := fieldByTag(v, group+name)
		switch {
		case ok:
			d.value(inner, value, field)
		case contains(known, name):
			if !d.foreign(inner, value) {
				d.object(inner, group+name+".", value, v)
			}
		default:
			d.note(at, inner, "is not known here: %s", hint(name, known))
		}
	})
}

// mapping reads a mapping whose names are free into a map of structs.
func (d *document) mapping(path string, node ast.Node, v reflect.Value) {
	d.entries(path, node, func(name string, _ position, value ast.Node) {
		element := fresh(v.Type().Elem())
		d.value(join(path, name), value, element)
		v.SetMapIndex(reflect.ValueOf(name), element)
	})
}

func (d *document) list(path string, node ast.Node, v reflect.Value) {
	sequence, ok := node.(*ast.SequenceNode)
	if !ok {
		d.fail(path, "must be a list: write [a, b], or one line with a dash for each element")
		return
	}
	list := reflect.MakeSlice(v.Type(), 0, len(sequence.Values))
	for i, value := range sequence.Values {
		inner := index(path, i)
		d.put(inner, elementPosition(value), rawText(value))
		element := fresh(v.Type().Elem())
		d.value(inner, value, element)
		list = reflect.Append(list, element)
	}
	v.Set(list)
}

// entries calls f for each entry of a mapping, the first of each name only.
func (d *document) entries(path string, node ast.Node, f func(name string, at position, value ast.Node)) {
	mapping, ok := node.(ast.MapNode)
	if !ok {
		d.fail(path, "must be a mapping: write name: value, one to a line")
		return
	}
	first := map[string]position{}
	for iter := mapping.MapRange(); iter.Next(); {
		name, at, ok := d.key(path, iter.Key())
		if !ok {
			continue
		}
		if before, twice := first[name]; twice {
			d.note(at, join(path, name), "is given twice, first on line %d: keep one", before.line)
			continue
		}
		first[name] = at
		d.put(join(path, name), valuePosition(iter.Value(), at), rawText(iter.Value()))
		f(name, at, iter.Value())
	}
}

func (d *document) key(path string, node ast.MapKeyNode) (name string, at position, ok bool) {
	at = d.nearest(path)
	if scalar, isScalar := node.(ast.ScalarNode); isScalar && !node.IsMergeKey() {
		return scalar.GetToken().Value, tokenPosition(scalar.GetToken()), true
	}
	if node != nil && node.GetToken() != nil {
		at = tokenPosition(node.GetToken())
	}
	d.note(at, path, "has a name that is not a plain text: anchors, aliases, merges and complex names are not known here")
	return "", at, false
}

// fresh returns a new value that can be set, with the defaults of its type.
func fresh(t reflect.Type) reflect.Value {
	v := reflect.New(t)
	switch element := v.Interface().(type) {
	case *Pool:
		*element = DefaultPool()
	case *Plan:
		*element = DefaultPlan()
	}
	return v.Elem()
}

func fieldByTag(v reflect.Value, tag string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("yaml") == tag {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// fieldNames returns the names that a mapping of the struct, or of one group
// of it, may hold, in the order of the fields.
func fieldNames(t reflect.Type, group string) []string {
	var names []string
	for i := range t.NumField() {
		name, ok := strings.CutPrefix(t.Field(i).Tag.Get("yaml"), group)
		name, _, _ = strings.Cut(name, ".")
		if ok && name != "-" && name != "" && !contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// valuePosition is where a fault of a named value is shown: at a scalar itself,
// and at the name in front of anything larger, or of nothing.
func valuePosition(node ast.Node, name position) position {
	switch node.(type) {
	case *ast.NullNode:
		return name
	case ast.ScalarNode:
		return tokenPosition(node.GetToken())
	}
	return name
}

// elementPosition is where a fault of a list's element is shown: at its first
// character. The YAML parser takes the first colon of a mapping for its start.
func elementPosition(node ast.Node) position {
	if block, ok := node.(*ast.MappingNode); ok && !block.IsFlowStyle && len(block.Values) > 0 {
		return tokenPosition(block.Values[0].Key.GetToken())
	}
	return tokenPosition(node.GetToken())
}
