package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// again is after how many seconds a client that was told to wait may ask again:
// an election takes as long.
const again = 2

// statusOf is the HTTP status of a code. TiCDC answers 400 to whatever the caller
// can mend, and its clients know no finer ones.
func statusOf(c *cdcerr.Code) int {
	switch c {
	case nil:
		return http.StatusInternalServerError
	case cdcerr.Unauthorized, cdcerr.CredentialMissing:
		return http.StatusUnauthorized
	case cdcerr.UnknownPath:
		return http.StatusNotFound
	case cdcerr.RequestTooLarge:
		return http.StatusRequestEntityTooLarge
	case cdcerr.NotInRelease:
		return http.StatusNotImplemented
	case cdcerr.ServerNotReady, cdcerr.OwnerNotFound, cdcerr.NotOwner, cdcerr.RequestForward,
		cdcerr.PDUnreachable, cdcerr.MetaUnreachable, cdcerr.MetaConflict:
		return http.StatusServiceUnavailable
	case cdcerr.Unexpected, cdcerr.ClusterUnhealthy:
		return http.StatusInternalServerError
	}
	if c.Class == cdcerr.Terminal {
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// refused is an error that has a status of its own.
type refused struct {
	error
	status int
}

// Unwrap is the error with its code.
func (r refused) Unwrap() error { return r.error }

// answerError writes err in TiCDC's shape.
func answerError(w http.ResponseWriter, err error) {
	code := cdcerr.Of(err)
	status := statusOf(code)
	var own refused
	if errors.As(err, &own) {
		status = own.status
	}
	body := ErrorBody{Message: err.Error(), Code: "CDC:ErrInternalServerError"}
	if code != nil {
		body.Code, body.Meaning, body.Remedy = code.ID, code.Meaning, code.Remedy
	}
	switch status {
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", strconv.Itoa(again))
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Basic realm="sluice"`)
	}
	answer(w, status, body)
}

// answer writes a JSON value; a caller that is gone is nobody's error.
func answer(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error_msg":"the answer cannot be written as JSON","error_code":"CDC:ErrInternalServerError"}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the caller is gone
}
