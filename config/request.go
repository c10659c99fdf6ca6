package config

import (
	"bytes"
	"encoding/json"
	"regexp"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// jsonNumber is what RFC 8259 calls a number.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// members reads a mapping into JSON members, in the order of the file.
func (d *document) members(path string, node ast.Node) []Member {
	var members []Member
	d.entries(path, node, func(name string, _ position, value ast.Node) {
		var out bytes.Buffer
		d.json(join(path, name), value, &out)
		members = append(members, Member{Name: name, Value: out.Bytes()})
	})
	return members
}

// json appends the node as JSON. After a fault it appends what is no JSON.
func (d *document) json(path string, node ast.Node, out *bytes.Buffer) {
	switch value := node.(type) {
	case *ast.NullNode:
		out.WriteString("null")
	case *ast.SequenceNode:
		d.jsonList(path, value, out)
	case ast.MapNode:
		d.jsonObject(path, node, out)
	default:
		if !d.foreign(path, node) {
			d.jsonScalar(path, node, out)
		}
	}
}

func (d *document) jsonObject(path string, node ast.Node, out *bytes.Buffer) {
	out.WriteByte('{')
	before := out.Len()
	d.entries(path, node, func(name string, _ position, value ast.Node) {
		if out.Len() > before {
			out.WriteByte(',')
		}
		writeJSONString(out, name)
		out.WriteByte(':')
		d.json(join(path, name), value, out)
	})
	out.WriteByte('}')
}

func (d *document) jsonList(path string, node *ast.SequenceNode, out *bytes.Buffer) {
	out.WriteByte('[')
	for i, value := range node.Values {
		if i > 0 {
			out.WriteByte(',')
		}
		inner := index(path, i)
		d.put(inner, elementPosition(value), rawText(value))
		d.json(inner, value, out)
	}
	out.WriteByte(']')
}

// jsonScalar keeps the digits of a number as they stand. A number that comes
// from a variable stays a text, because it was written as one.
func (d *document) jsonScalar(path string, node ast.Node, out *bytes.Buffer) {
	raw := rawText(node)
	_, isText := node.(*ast.StringNode)
	plain := node.GetToken().Type == token.StringType
	switch node.(type) {
	case *ast.BoolNode:
		out.WriteString(map[bool]string{true: "true", false: "false"}[raw[0] == 't' || raw[0] == 'T'])
		return
	case *ast.StringNode, *ast.LiteralNode:
		// 1e3 is a number to JSON and to YAML 1.2, but not to the YAML parser.
		if isText && plain && jsonNumber.MatchString(raw) {
			out.WriteString(raw)
			return
		}
		text, err := expand(raw, d.env)
		if err != nil {
			d.fail(path, "%v", err)
		}
		writeJSONString(out, text)
		return
	}
	if !jsonNumber.MatchString(raw) {
		d.fail(path, "%s is not a number in JSON: write it in decimal digits, or in quotation marks if it is a text", quote(raw))
	}
	out.WriteString(raw)
}

func writeJSONString(out *bytes.Buffer, text string) {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a text always encodes
	out.Truncate(out.Len() - len("\n"))
}
