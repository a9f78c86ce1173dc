package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// resource is one kind of effect that the service offers.
type resource struct {
	// name is the endpoint (POST /name) and prefix starts its effects' ids.
	name, prefix string
	// key returns what makes two requests the same effect. nil: nothing does,
	// every arrival is an effect, and there is nothing to query by.
	key func(r *http.Request, body map[string]any) string
	// keyIs says in an error message where the key belongs.
	keyIs string
	// check refuses what the service would never do, before any effect.
	check func(body map[string]any) *refusal
}

// refusal is a definite no: there was no effect and there will not be one.
type refusal struct {
	status int
	reason string
}

func resources() []*resource {
	return []*resource{
		{
			name: "charges", prefix: "ch",
			key:   func(r *http.Request, _ map[string]any) string { return r.Header.Get("Idempotency-Key") },
			keyIs: "the Idempotency-Key header",
			check: checkCharge,
		},
		{
			name: "shipments", prefix: "sh",
			key: func(_ *http.Request, body map[string]any) string {
				id, _ := body["id"].(string)
				return id
			},
			keyIs: "the field id",
			check: func(map[string]any) *refusal { return nil },
		},
		{
			name: "notifications", prefix: "nt",
			check: func(map[string]any) *refusal { return nil },
		},
	}
}

func checkCharge(body map[string]any) *refusal {
	amount, _ := body["amount"].(json.Number)
	if cents, err := amount.Int64(); err != nil || cents <= 0 {
		return &refusal{http.StatusBadRequest, "amount must be a positive number of cents"}
	}
	if body["card"] == "tok_declined" {
		return &refusal{http.StatusPaymentRequired, "card declined"}
	}
	return nil
}

// arrival reads who is calling for what. Where the caller does not name the
// operation apart, its key names it.
func (res *resource) arrival(r *http.Request, body map[string]any) (Entry, error) {
	e := Entry{
		Kind:        KindArrival,
		Endpoint:    res.name,
		OperationID: r.Header.Get("X-Operation-Id"),
		RunID:       r.Header.Get("X-Run-Id"),
		Client:      r.Header.Get("X-Client"),
	}
	if res.key != nil {
		e.Key = res.key(r, body)
	}
	if e.OperationID == "" {
		e.OperationID = e.Key
	}
	// Marshal sorts the keys, so the order in which a caller writes them does
	// not make another request of it.
	sorted, err := json.Marshal(body)
	if err != nil {
		return Entry{}, fmt.Errorf("encode body: %w", err)
	}
	sum := sha256.Sum256(sorted)
	e.Digest = hex.EncodeToString(sum[:])
	return e, nil
}

// effect is what the arrival caused, with the answer that every later request
// of the same key will get too.
func (res *resource) effect(arrival Entry, n int64, body map[string]any) (Entry, error) {
	e := arrival
	e.Kind = KindEffect
	e.EffectID = fmt.Sprintf("%s_%d", res.prefix, n)
	answer := map[string]any{
		"id":           e.EffectID,
		"operation_id": e.OperationID,
		"status":       "succeeded",
		"request":      body,
	}
	var err error
	if e.Answer, err = json.Marshal(answer); err != nil {
		return Entry{}, fmt.Errorf("encode answer: %w", err)
	}
	return e, nil
}

func decodeBody(w http.ResponseWriter, r *http.Request) (map[string]any, error) {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	decoder.UseNumber()
	var body map[string]any
	if err := decoder.Decode(&body); err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	if _, err := decoder.Token(); body == nil || !errors.Is(err, io.EOF) {
		return nil, errors.New("read body: not one JSON object")
	}
	return body, nil
}
