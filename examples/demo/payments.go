package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// entry is a line of the payments service's own ledger.
type entry struct {
	Seq         int64     `json:"seq"`
	At          time.Time `json:"at"`
	Kind        string    `json:"kind"` // arrival or effect
	Endpoint    string    `json:"endpoint"`
	OperationID string    `json:"operation_id"`
	RunID       string    `json:"run_id"`
	Client      string    `json:"client"`
	EffectID    string    `json:"effect_id"`
}

const (
	arrival = "arrival"
	effect  = "effect"
)

// fault is an order to the payments service to misbehave.
type fault struct {
	Endpoint string            `json:"endpoint"`
	Fault    string            `json:"fault"`
	Where    map[string]string `json:"where"`
	Times    int               `json:"times,omitempty"`
	Millis   int64             `json:"millis,omitempty"`
}

// payments is a client of the payments service's back door.
type payments struct {
	url    string
	client *http.Client
}

func (p *payments) arm(ctx context.Context, f fault) error {
	body, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("arm fault: %w", err)
	}
	return p.do(ctx, http.MethodPost, "/faults", body, nil)
}

// ledger returns the entries after a sequence number.
func (p *payments) ledger(ctx context.Context, after int64) ([]entry, error) {
	var body struct {
		Entries []entry `json:"entries"`
	}
	err := p.do(ctx, http.MethodGet, fmt.Sprintf("/ledger?after=%d", after), nil, &body)
	return body.Entries, err
}

func (p *payments) do(ctx context.Context, method, path string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask the payments service: %w", err)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the payments service: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("ask the payments service: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ask the payments service: %s %s: %s", method, path, strings.TrimSpace(string(answer)))
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("ask the payments service: %w", err)
	}
	return nil
}
