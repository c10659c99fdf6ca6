package config

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

var defaultSays = regexp.MustCompile(`Default: (\[.*\]|.*?)(\.$|, | which)`)

// The reference is made from the comments, so they must say what Default says.
func TestCommentsStateTheDefaults(t *testing.T) {
	comments := documented(t)
	sections := map[string]reflect.Value{}
	for _, section := range []any{Config{}, Listen{}, ProxyProtocol{}, Redis{}, Consul{}, Device{}, Console{}, Bounds{}, Timeouts{}, Answer{}, Shutdown{}, Log{}, Metrics{}, Trace{}} {
		name := reflect.TypeOf(section).Name()
		sections[name] = reflect.ValueOf(*Default())
		if name != "Config" {
			sections[name] = sections[name].FieldByName(name)
		}
	}
	sections["OIDC"], sections["Header"] = reflect.ValueOf(Default().Console.OIDC), reflect.ValueOf(Default().Console.Header)
	sections["Register"], sections["Service"] = reflect.ValueOf(Default().Consul.Register), reflect.ValueOf(Service{})
	sections["Pool"], sections["Plan"] = reflect.ValueOf(DefaultPool()), reflect.ValueOf(DefaultPlan())
	for path, comment := range comments {
		section, name, _ := strings.Cut(path, " ")
		found := defaultSays.FindStringSubmatch(comment)
		if found == nil || !sections[section].IsValid() {
			continue
		}
		field, _ := fieldByTag(sections[section], name)
		if !says(found[1], field) {
			t.Errorf("%s: the comment says the default is %s, Default says %v", path, found[1], field)
		}
		delete(comments, path)
	}
	for path := range comments {
		if section, _, _ := strings.Cut(path, " "); section == "Timeouts" || section == "Bounds" || section == "Device" || section == "Metrics" {
			t.Errorf("%s: the comment states no default", path)
		}
	}
}

func TestCommentsStateTheUnits(t *testing.T) {
	for _, section := range []any{ProxyProtocol{}, Redis{}, Register{}, Pool{}, Device{}, Console{}, Model{}, Limit{}, Bounds{}, Timeouts{}, Shutdown{}} {
		kind := reflect.TypeOf(section)
		for i := range kind.NumField() {
			field := kind.Field(i)
			comment := documented(t)[kind.Name()+" "+field.Tag.Get("yaml")]
			if field.Type == reflect.TypeFor[time.Duration]() && !strings.Contains(comment, "Duration.") ||
				field.Type == reflect.TypeFor[Size]() && !strings.Contains(comment, "Size.") ||
				field.Type == reflect.TypeFor[int64]() && !regexp.MustCompile(`Count\.|Tokens\.`).MatchString(comment) {
				t.Errorf("%s.%s: the comment states no unit: %s", kind.Name(), field.Name, comment)
			}
		}
	}
}

// says reports whether the text of a comment means the value.
func says(text string, v reflect.Value) bool {
	switch value := v.Interface().(type) {
	case time.Duration:
		d, err := ParseDuration(text)
		return err == nil && d == value
	case string, Secret:
		word := v.String()
		return text == word || text == fmt.Sprintf("%q", word) || word == "" && text == "empty"
	case []string:
		return text == "["+strings.Join(value, ", ")+"]"
	}
	return text == fmt.Sprint(v)
}

// documented returns the comment of each field that a file can give, by struct
// and tag.
func documented(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	comments := map[string]string{}
	for _, file := range files {
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for name, kind := range structs(source) {
			maps.Copy(comments, fieldComments(t, name, kind))
		}
	}
	return comments
}

func structs(file *ast.File) map[string]*ast.StructType {
	found := map[string]*ast.StructType{}
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, ok := node.(*ast.TypeSpec); ok {
			if kind, ok := spec.Type.(*ast.StructType); ok {
				found[spec.Name.Name] = kind
			}
		}
		return true
	})
	return found
}

func fieldComments(t *testing.T, name string, kind *ast.StructType) map[string]string {
	comments := map[string]string{}
	for _, field := range kind.Fields.List {
		if field.Tag == nil {
			continue
		}
		tag := reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("yaml")
		if tag == "-" {
			continue
		}
		text := strings.Join(strings.Fields(field.Doc.Text()), " ")
		if text == "" {
			t.Errorf("%s %s has no comment", name, tag)
		}
		comments[name+" "+tag] = text
	}
	return comments
}
