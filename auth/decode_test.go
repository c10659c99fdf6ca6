package auth

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func decodePair(body string) (a, b string, err error) {
	err = decodeObject(strings.NewReader(body), map[string]*string{"a": &a, "b": &b})
	return a, b, err
}

func TestDecodeObjectIsStrict(t *testing.T) {
	for _, row := range []struct{ name, body, want string }{
		{"both fields", `{"a":"1","b":"2"}`, ""},
		{"one field, with blanks and a line end", " { \"b\" : \"2\" } \n", ""},
		{"an empty object", `{}`, ""},
		{"no body", ``, ""},
		{"an unknown field", `{"c":"1"}`, "c: is not a field of this request"},
		{"a known field in another case", `{"A":"1"}`, "A: is not a field of this request"},
		{"a field twice", `{"a":"1","a":"2"}`, "a: is given twice"},
		{"a number", `{"a":1}`, "a: must be a string"},
		{"null", `{"a":null}`, "a: must be a string"},
		{"a nested object", `{"a":{"b":"1"}}`, "a: must be a string"},
		{"an array", `[]`, errBody.Error()},
		{"a string", `"a"`, errBody.Error()},
		{"an object cut short", `{"a":"1"`, errBody.Error()},
		{"something after the object", `{"a":"1"}{}`, errBody.Error()},
		{"no JSON", `a=1`, errBody.Error()},
		{"a key as a field's name", `{"` + goodKey + `":"1"}`, "(a long name): is not a field of this request"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, _, err := decodePair(row.body)
			if got := errorText(err); got != row.want {
				t.Fatalf("error is %q, want %q", got, row.want)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Whatever is accepted must be what encoding/json reads, and the errors must
// be of the two kinds that become a 400.
func FuzzDecodeObject(f *testing.F) {
	for _, seed := range []string{`{"a":"1","b":"2"}`, `{"a":null}`, `{}`, ``, `{"a":"\ud800"}`, `{"a":"1"} x`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		a, b, err := decodePair(body)
		var invalid *Invalid
		if err != nil {
			if !errors.As(err, &invalid) && !errors.Is(err, errBody) {
				t.Fatalf("error %v", err)
			}
			return
		}
		if body == "" || strings.TrimSpace(body) == "" {
			return
		}
		var want struct{ A, B string }
		if err := json.Unmarshal([]byte(body), &want); err != nil || want.A != a || want.B != b {
			t.Fatalf("%q gave %q and %q; encoding/json %+v, %v", body, a, b, want, err)
		}
	})
}
