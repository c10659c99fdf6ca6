package auth

import (
	"encoding/json"
	"errors"
	"net/http"
)

// apiError is an answer in the shape that OpenAI's clients read.
type apiError struct {
	status  int
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

const (
	typeRequest = "invalid_request_error"
	typeServer  = "server_error"
)

var (
	errToken = apiError{status: http.StatusUnauthorized, Type: "authentication_error",
		Code: "invalid_admin_token", Message: "the key API wants its admin token as a bearer token"}
	errPath = apiError{status: http.StatusNotFound, Type: typeRequest,
		Code: "not_found", Message: "the key API has no such path"}
	errMethod = apiError{status: http.StatusMethodNotAllowed, Type: typeRequest,
		Code: "method_not_allowed", Message: "the path does not take this method"}
)

// answerTo turns an error into what the client is told. Its second result says
// whether the fault is ours and belongs into the log.
func answerTo(err error) (answer apiError, ours bool) {
	var invalid *Invalid
	switch {
	case errors.As(err, &invalid):
		return apiError{status: http.StatusBadRequest, Type: typeRequest, Code: "invalid_value",
			Param: &invalid.Param, Message: invalid.Error()}, false
	case errors.Is(err, errBody):
		return apiError{status: http.StatusBadRequest, Type: typeRequest, Code: "invalid_json",
			Message: errBody.Error()}, false
	case isTooLarge(err):
		return apiError{status: http.StatusRequestEntityTooLarge, Type: typeRequest, Code: "request_too_large",
			Message: "the body is too large"}, false
	case errors.Is(err, ErrUnknown):
		return apiError{status: http.StatusNotFound, Type: typeRequest, Code: "key_not_found",
			Message: "there is no key with this id"}, false
	case errors.Is(err, ErrRevoked):
		return apiError{status: http.StatusConflict, Type: typeRequest, Code: "key_revoked",
			Message: "the key is revoked"}, false
	case errors.Is(err, ErrExpired):
		return apiError{status: http.StatusConflict, Type: typeRequest, Code: "key_expired",
			Message: "the key has expired"}, false
	case errors.Is(err, ErrStore):
		return apiError{status: http.StatusServiceUnavailable, Type: typeServer, Code: "key_store_unavailable",
			Message: "the key store cannot be reached or does not work"}, true
	}
	return apiError{status: http.StatusInternalServerError, Type: typeServer, Code: "internal_error",
		Message: "the gateway made a mistake"}, true
}

func isTooLarge(err error) bool {
	var tooLarge *http.MaxBytesError
	return errors.As(err, &tooLarge)
}

func (e apiError) write(w http.ResponseWriter) {
	switch e.status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, e.status, map[string]apiError{"error": e})
}

// writeJSON drops the error of a client that has gone.
func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
