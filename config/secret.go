package config

import "fmt"

// Secret is a text that prints as a mask in every verb of fmt, in JSON and in
// YAML. An empty Secret prints as nothing, so that one can see whether it is
// set. Only a verb that is wrong for a pointer, like %s, gets past the mask;
// go vet refuses it.
type Secret string

const mask = "[secret]"

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String returns a mask.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// GoString returns a mask.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// Format writes a mask whatever the verb: without it %x would print the secret
// in hex.
func (s Secret) Format(f fmt.State, verb rune) {
	text := s.String()
	if verb == 'q' || f.Flag('#') {
		text = s.GoString()
	}
	_, _ = f.Write([]byte(text))
}

// MarshalText returns a mask, which is what JSON and YAML then hold.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
