package config

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

const (
	configPage = "../docs/configuration.md"
	pageMark   = "<!-- What follows is generated: go generate ./config -->\n"
)

// TestConfigurationPageIsWhatTheCommentsSay makes the reference from the doc
// comments of this package, and holds the page against it.
func TestConfigurationPageIsWhatTheCommentsSay(t *testing.T) {
	page, err := os.ReadFile(configPage)
	if err != nil {
		t.Fatal(err)
	}
	written, generated, found := strings.Cut(string(page), pageMark)
	if !found {
		t.Fatalf("%s has lost its mark %s", configPage, pageMark)
	}
	r := reference{comments: documented(t), types: typeComments(t)}
	r.section("", reflect.TypeFor[Config](), "")
	want := r.text.String()
	if *update {
		if err := os.WriteFile(configPage, []byte(written+pageMark+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if generated != want {
		t.Errorf("%s is out of date: go generate ./config", configPage)
	}
}

// reference writes a section for each struct, the outer before the inner.
type reference struct {
	comments map[string]string // by struct and tag
	types    map[string]string
	text     strings.Builder
}

// section writes the fields of a struct that stands at path in the file; said
// is what the field that holds it says.
func (r *reference) section(path string, kind reflect.Type, said string) {
	title := "The file"
	if path != "" {
		title = "`" + path + "`"
	}
	if said == "" {
		said = r.types[kind.Name()]
	}
	fmt.Fprintf(&r.text, "\n## %s\n\n%s\n\n| field | value | |\n|---|---|---|\n", title, cell(said))
	var inner []func()
	for i := range kind.NumField() {
		field := kind.Field(i)
		tag := field.Tag.Get("yaml")
		if tag == "" || tag == "-" {
			continue
		}
		comment := withoutName(r.comments[kind.Name()+" "+tag], field.Name)
		at, below := strings.TrimPrefix(path+"."+tag, "."), field.Type
		switch below.Kind() {
		case reflect.Map:
			at, below = at+".NAME", below.Elem()
		case reflect.Slice:
			at, below = at+"[]", below.Elem()
		}
		if r.isSection(below) {
			inner = append(inner, func() { r.section(at, below, comment) })
			fmt.Fprintf(&r.text, "| `%s` | [%s](#%s) | %s |\n", tag, shape(field.Type), anchor(at), cell(comment))
			continue
		}
		fmt.Fprintf(&r.text, "| `%s` | %s | %s |\n", tag, shape(field.Type), cell(comment))
	}
	for _, write := range inner {
		write()
	}
}

// withoutName drops Go's name from a comment that begins with it: what follows
// says it all beside the field's own name.
func withoutName(comment, name string) string {
	for _, verb := range []string{" is ", " are "} {
		if rest, ok := strings.CutPrefix(comment, name+verb); ok {
			return strings.ToUpper(rest[:1]) + rest[1:]
		}
	}
	return comment
}

// isSection reports whether a file gives the type as a mapping of known fields.
func (r *reference) isSection(kind reflect.Type) bool {
	return kind.Kind() == reflect.Struct && kind != reflect.TypeFor[time.Time]() && kind != reflect.TypeFor[Member]()
}

// shape is what a person has to write.
func shape(kind reflect.Type) string {
	switch kind {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[Size]():
		return "size"
	case reflect.TypeFor[time.Time]():
		return "date"
	case reflect.TypeFor[Secret]():
		return "secret"
	case reflect.TypeFor[[32]byte]():
		return "hex"
	case reflect.TypeFor[[]Member]():
		return "mapping"
	}
	switch kind.Kind() {
	case reflect.Slice:
		if kind.Elem().Kind() == reflect.Struct {
			return "list"
		}
		return "list of " + shape(kind.Elem()) + "s"
	case reflect.Map:
		return "mapping by name"
	case reflect.Struct:
		return "mapping"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	}
	return "number"
}

// anchor is how GitHub names the heading of a section.
func anchor(path string) string {
	return strings.NewReplacer(".", "", "[]", "").Replace(strings.ToLower(path))
}

func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(text)
}

// typeComments returns the comment of each type.
func typeComments(t *testing.T) map[string]string {
	t.Helper()
	files, _ := filepath.Glob("*.go")
	comments := map[string]string{}
	for _, file := range files {
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range source.Decls {
			if group, ok := declaration.(*ast.GenDecl); ok && group.Tok == token.TYPE {
				for _, spec := range group.Specs {
					comments[spec.(*ast.TypeSpec).Name.Name] = strings.Join(strings.Fields(group.Doc.Text()), " ")
				}
			}
		}
	}
	return comments
}
