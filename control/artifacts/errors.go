package artifacts

import (
	"fmt"
	"net/http"
)

// An Error refuses a request; its message is for the caller.
type Error struct {
	Status  int // HTTP
	Message string
}

func (e *Error) Error() string { return e.Message }

// HTTPStatus is the status to answer with.
func (e *Error) HTTPStatus() int { return e.Status }

func refuse(status int, format string, args ...any) *Error {
	return &Error{Status: status, Message: fmt.Sprintf(format, args...)}
}

// exhausted is the answer of a store that has no room.
func exhausted(format string, args ...any) *Error {
	return refuse(http.StatusInsufficientStorage, "RESOURCE_EXHAUSTED: "+format, args...)
}
