package toolstest

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// Recognition says by what an HTTP remote recognises a repeated call.
type Recognition int

// The ways to recognise a repetition.
const (
	// ByKey: a repetition is answered from memory.
	ByKey Recognition = iota
	// ByName: an effect has a name, and a second of the same name is refused.
	ByName
	// NotAtAll: every call has an effect of its own.
	NotAtAll
)

// Effect is one effect at an HTTP remote.
type Effect struct {
	// ID is the remote's own name for it, Name what the caller called it by.
	ID, Name string
	// Header and Body are the call's.
	Header http.Header
	Body   []byte
	// Foreign: it is somebody else's; the call's marks are not in Header and
	// Body.
	Foreign bool
}

// Dialect is how an HTTP remote speaks. Each field's zero value is the habit of
// an API with an Idempotency-Key.
type Dialect struct {
	Recognises Recognition
	// Retention is how long a key is remembered after its first use; 0 is for
	// ever. Only for ByKey.
	Retention time.Duration
	// Compares: a known key with another body is refused.
	Compares bool
	// ForgetsErrors: an error is not stored under its key.
	ForgetsErrors bool

	// Asks tells questions from calls. Default: GET and HEAD ask.
	Asks func(r *http.Request) bool
	// Name is what a call names its effect by, or a question asks for; "" is a
	// question about all of them, answered by List. Default: the header
	// Idempotency-Key, else X-Operation-Id.
	Name func(r *http.Request, body []byte) string
	// NameOf is the same name, as the tool derives it from an operation id.
	// Default: the id itself.
	NameOf func(id protocol.OperationID) string

	// Created answers a call whose effect came about (or came about before, for
	// ByKey); Found answers a question. Default: 200 with id and state.
	Created, Found func(w http.ResponseWriter, e Effect)
	// List answers a question about all effects.
	List func(w http.ResponseWriter, all []Effect)
	// Absent answers a question about nothing. Default: 404.
	Absent func(w http.ResponseWriter)
	// Taken says that the name exists (ByName), Mismatch that the key is used for
	// another body, Busy that a call of this name is at work. Defaults: 409, 422
	// and 409 for ByKey (202 otherwise).
	Taken, Mismatch, Busy func(w http.ResponseWriter, name string)
}

func (d Dialect) withDefaults() Dialect {
	if d.Asks == nil {
		d.Asks = func(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }
	}
	if d.Name == nil {
		d.Name = func(r *http.Request, _ []byte) string {
			if key := r.Header.Get("Idempotency-Key"); key != "" {
				return key
			}
			return r.Header.Get("X-Operation-Id")
		}
	}
	if d.NameOf == nil {
		d.NameOf = func(id protocol.OperationID) string { return string(id) }
	}
	if d.Found == nil {
		d.Found = found
	}
	if d.Created == nil {
		d.Created = d.Found
	}
	if d.List == nil {
		d.List = func(w http.ResponseWriter, _ []Effect) {
			Answer(w, http.StatusBadRequest, map[string]string{"error": "ask for what?"})
		}
	}
	if d.Absent == nil {
		d.Absent = func(w http.ResponseWriter) {
			Answer(w, http.StatusNotFound, map[string]string{"error": "no such effect"})
		}
	}
	if d.Taken == nil {
		d.Taken = saying(http.StatusConflict, "the name is taken")
	}
	if d.Mismatch == nil {
		d.Mismatch = saying(http.StatusUnprocessableEntity, "the key was used for another request")
	}
	if d.Busy == nil {
		d.Busy = saying(http.StatusAccepted, "accepted")
		if d.Recognises == ByKey {
			d.Busy = saying(http.StatusConflict, "a request of this key is at work")
		}
	}
	return d
}

func found(w http.ResponseWriter, e Effect) {
	Answer(w, http.StatusOK, map[string]string{"id": e.ID, "state": "done"})
}

func saying(status int, text string) func(http.ResponseWriter, string) {
	return func(w http.ResponseWriter, _ string) { Answer(w, status, map[string]string{"error": text}) }
}

// Answer writes body as JSON; for use in a Dialect.
func Answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
