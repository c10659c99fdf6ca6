package devicecode

import (
	"bytes"
	"encoding/json"
	"net/url"
)

// known are the parameters that are read; others are ignored, as OAuth wants.
var known = []string{"client_id", "device_code", "grant_type", "scope"}

// fault is a request that cannot be answered. The text is ours.
type fault struct{ code, text string }

func (f *fault) Error() string { return f.code + ": " + f.text }

// readForm refuses a parameter that comes twice (RFC 6749, section 3.2).
func readForm(body string) (map[string]string, error) {
	values, err := url.ParseQuery(body)
	if err != nil {
		return nil, &fault{"invalid_request", "the body is not a form"}
	}
	fields := map[string]string{}
	for _, name := range known {
		switch given := values[name]; len(given) {
		case 0:
		case 1:
			fields[name] = given[0]
		default:
			return nil, &fault{"invalid_request", name + " is given twice"}
		}
	}
	return fields, nil
}

// readJSON reads one object whose known members are strings.
func readJSON(body []byte) (map[string]string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return nil, &fault{"invalid_request", "the body is not a JSON object"}
	}
	fields := map[string]string{}
	for _, name := range known {
		raw, given := members[name]
		if !given || bytes.Equal(raw, []byte("null")) {
			continue
		}
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return nil, &fault{"invalid_request", name + " must be a string"}
		}
		fields[name] = text
	}
	return fields, nil
}
