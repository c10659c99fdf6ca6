package auth

import (
	"encoding/json"
	"errors"
	"io"
)

// errBody is a request body that is not one JSON object.
var errBody = errors.New("the body must be one JSON object with string values")

// decodeObject reads a JSON object whose values are all strings into fields.
// It refuses what encoding/json lets pass: unknown and repeated names, names
// in another case, null, and anything after the object. No body at all is an
// empty object. Errors repeat no value.
func decodeObject(body io.Reader, fields map[string]*string) error {
	dec := json.NewDecoder(body)
	open, err := dec.Token()
	if err == io.EOF {
		return nil
	}
	if err != nil || open != json.Delim('{') {
		return bodyError(err)
	}
	seen := make(map[string]bool, len(fields))
	for dec.More() {
		if err := decodeField(dec, fields, seen); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return bodyError(err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return bodyError(err)
	}
	return nil
}

func decodeField(dec *json.Decoder, fields map[string]*string, seen map[string]bool) error {
	token, err := dec.Token()
	name, isString := token.(string)
	if err != nil || !isString {
		return bodyError(err)
	}
	field, known := fields[name]
	switch {
	case !known:
		return &Invalid{Param: harmless(name), Reason: "is not a field of this request"}
	case seen[name]:
		return &Invalid{Param: name, Reason: "is given twice"}
	}
	seen[name] = true
	token, err = dec.Token()
	if err != nil {
		return bodyError(err)
	}
	if *field, isString = token.(string); !isString {
		return &Invalid{Param: name, Reason: "must be a string"}
	}
	return nil
}

// bodyError keeps only the one cause that has a status of its own, a body over
// its bound; the decoder's messages quote the input.
func bodyError(err error) error {
	if err != nil && isTooLarge(err) {
		return err
	}
	return errBody
}

// harmless returns name if it looks like a field's name: it will be repeated
// to the client, and must not be a key in the wrong place.
func harmless(name string) string {
	if len(name) > 24 {
		return "(a long name)"
	}
	for _, c := range []byte(name) {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return "(a name)"
		}
	}
	return name
}
