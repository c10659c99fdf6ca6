package body

import "fmt"

// The codes of a Fault, in the manner of OpenAI's.
const (
	CodeInvalidJSON = "invalid_json"               // the body is not one JSON object
	CodeMissing     = "missing_required_parameter" // a member has to be there
	CodeType        = "invalid_type"               // a member has the wrong JSON type
	CodeValue       = "invalid_value"              // a member has the right type, but a value out of its range
	CodeDuplicate   = "duplicate_parameter"        // a member is there twice
)

// A Fault says what is wrong with a body, in terms of what to change. Its
// message holds nothing of the body's values.
type Fault struct {
	Status  int    // always 400
	Param   string // path of the member, like messages[3].content; empty for the body as a whole
	Code    string // one of the Code constants
	Message string
}

func (f *Fault) Error() string { return f.Message }

// refuse records a fault in what the JSON says; only the first one counts. It
// returns false so that a check can end with it.
func (l *lexer) refuse(code, param, format string, args ...any) bool {
	if l.fault == nil {
		l.fault = &Fault{Status: 400, Param: param, Code: code, Message: fmt.Sprintf(format, args...)}
	}
	return false
}

// wrongType refuses the value that comes next.
func (l *lexer) wrongType(param, want string) bool {
	return l.refuse(CodeType, param, "%s must be %s, not %s", param, want, l.kind())
}

// broken records a fault in the JSON itself.
func (l *lexer) broken(why string) bool {
	return l.refuse(CodeInvalidJSON, "", "the body is not valid JSON at byte %d: %s", l.i, why)
}

// kind names the JSON type of the value that comes next.
func (l *lexer) kind() string {
	switch l.peek() {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return "a number"
	}
	return "a broken value"
}
