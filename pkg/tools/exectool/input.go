package exectool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/pkg/tools"
)

// The values of mode.
const (
	modeCall  = "call"
	modeQuery = "query"
)

// input is what a command reads.
type input struct {
	Mode        string          `json:"mode"`
	OperationID string          `json:"operation_id"`
	RunID       string          `json:"run_id"`
	StepID      string          `json:"step_id"`
	Tool        string          `json:"tool"`
	Attempt     int             `json:"attempt"`
	FirstSentAt *time.Time      `json:"first_sent_at"`
	Digest      string          `json:"digest"`
	RemoteID    string          `json:"remote_id"`
	Request     json.RawMessage `json:"request"`
}

// encode makes one line of JSON in which the request stands byte for byte, so
// that its digest can be verified and no number has changed.
func encode(mode string, req tools.Request) ([]byte, error) {
	in := input{
		Mode: mode, OperationID: string(req.OperationID), RunID: req.RunID.String(), StepID: string(req.StepID),
		Tool: req.Tool, Attempt: req.Attempt, Digest: req.Digest, RemoteID: req.RemoteID, Request: req.Body,
	}
	if !req.FirstSentAt.IsZero() {
		in.FirstSentAt = &req.FirstSentAt
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // it would rewrite < and > inside the request
	if err := enc.Encode(in); err != nil {
		return nil, fmt.Errorf("encode the operation: %w", err)
	}
	return b.Bytes(), nil
}
