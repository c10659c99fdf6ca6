package sim

import (
	"fmt"
	"net/http"
	"strconv"
)

// Shape is one of the forms in which vLLM, over its versions and front ends,
// writes an error.
type Shape byte

const (
	ShapeNested     Shape = iota // {"error":{…,"code":404}}: since 2025-08
	ShapeFlat                    // {"object":"error",…,"code":404}: up to v0.10.0
	ShapeStringCode              // nested with "code":"404": the Rust front end
	ShapeBare                    // {"error":"Unauthorized"}: 401, and 503 while scaling
	ShapeEmpty                   // no body: /health of a dead engine
	ShapePlain                   // text/plain "Internal Server Error": an unhandled exception
)

var shapeNames = [...]string{"nested", "flat", "string", "bare", "empty", "plain"}

// String returns the name that a fault's shape= takes.
func (s Shape) String() string { return shapeNames[s] }

// ParseShape is the inverse of String.
func ParseShape(name string) (Shape, error) {
	for i, have := range shapeNames {
		if have == name {
			return Shape(i), nil
		}
	}
	return 0, fmt.Errorf("unknown error shape %q, want one of %v", name, shapeNames)
}

// apiError is an error before it is put into a shape.
type apiError struct {
	status  int
	kind    string
	param   string
	message string
}

func (e *apiError) Error() string { return e.message }

func badRequest(param, message string) *apiError {
	return &apiError{http.StatusBadRequest, "BadRequestError", param, message}
}

func statusError(status int, message string) *apiError {
	kind := "InternalServerError"
	switch {
	case status == http.StatusNotFound:
		kind = "NotFoundError"
	case status == http.StatusUnauthorized:
		kind = "AuthenticationError"
	case status == http.StatusTooManyRequests:
		kind = "RateLimitError"
	case status == http.StatusServiceUnavailable:
		kind = "ServiceUnavailableError"
	case status < 500:
		kind = "BadRequestError"
	}
	if message == "" {
		message = http.StatusText(status)
	}
	return &apiError{status: status, kind: kind, message: message}
}

func noModel(name string) *apiError {
	return &apiError{http.StatusNotFound, "NotFoundError", "model", "The model `" + name + "` does not exist."}
}

func queueFull(limit int) *apiError {
	return statusError(http.StatusServiceUnavailable,
		"The server is overloaded: the number of requests in flight has reached the limit of "+strconv.Itoa(limit)+". Please retry later.")
}

func tooLong(limit, prompt, output int) *apiError {
	return badRequest("input_tokens", fmt.Sprintf("This model's maximum context length is %d tokens. "+
		"However, you requested %d output tokens and your prompt contains at least %d input tokens, "+
		"for a total of at least %d tokens. Please reduce the length of the input prompt or the number of requested output tokens.",
		limit, output, prompt, prompt+output))
}

// appendBody puts e into a shape.
func (e *apiError) appendBody(b []byte, shape Shape) []byte {
	switch shape {
	case ShapeEmpty:
		return b
	case ShapePlain:
		return append(b, http.StatusText(e.status)...)
	case ShapeBare:
		return append(append(append(b, `{"error":"`...), escape(e.message)...), `"}`...)
	case ShapeFlat:
		b = append(b, `{"object":"error",`...)
		return append(e.appendMembers(b, ""), '}')
	case ShapeStringCode:
		b = append(b, `{"error":{`...)
		return append(e.appendMembers(b, `"`), "}}"...)
	}
	b = append(b, `{"error":{`...)
	return append(e.appendMembers(b, ""), "}}"...)
}

func (e *apiError) appendMembers(b []byte, quote string) []byte {
	b = append(append(b, `"message":"`...), escape(e.message)...)
	b = append(append(append(b, `","type":"`...), e.kind...), `","param":`...)
	if e.param == "" {
		b = append(b, "null"...)
	} else {
		b = append(append(append(b, '"'), escape(e.param)...), '"')
	}
	b = append(append(b, `,"code":`...), quote...)
	return append(strconv.AppendInt(b, int64(e.status), 10), quote...)
}

func (s Shape) contentType() string {
	if s == ShapePlain {
		return "text/plain; charset=utf-8"
	}
	return "application/json"
}
