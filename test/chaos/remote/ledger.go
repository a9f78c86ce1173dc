package remote

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// entry is a line of the ledger file.
type entry struct {
	At        time.Time `json:"at"`
	Endpoint  Endpoint  `json:"endpoint"`
	Operation string    `json:"operation_id"`
	What      string    `json:"what"` // arrival, refusal or effect
	Fault     Fault     `json:"fault,omitempty"`
	Client    string    `json:"client,omitempty"`
	Digest    string    `json:"digest,omitempty"`
}

// Record is what the service knows of one operation.
type Record struct {
	Endpoint Endpoint
	// Arrivals are requests that were let in: each may have had an effect.
	// Refusals are those that were turned away without one, beyond doubt.
	Arrivals, Refusals int
	Effects            int
	// Altered: requests came under this id with different contents.
	Altered bool
	// Refused: the service has refused the intent for good.
	Refused bool

	digest  string
	since   time.Time // from when queries see the effect
	making  bool      // the effect is on its way
	status  int       // of the answer that every repetition gets; 0: success
	pending int       // arrivals that have not come to an end
}

// ledger keeps the records, and their lines in a file.
type ledger struct {
	mu      sync.Mutex // guards all below
	file    *os.File
	records map[string]*Record
	err     error // the first that a write gave
}

func openLedger(path string) (*ledger, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the remote's ledger: %w", err)
	}
	return &ledger{file: file, records: map[string]*Record{}}, nil
}

// with changes the record of an operation, and writes what happened to it.
func (l *ledger) with(e entry, change func(*Record)) {
	e.At = time.Now()
	line, err := json.Marshal(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && e.What != "" {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("write the remote's ledger: %w", err)
	}
	r := l.records[e.Operation]
	if r == nil {
		r = &Record{Endpoint: e.Endpoint}
		l.records[e.Operation] = r
	}
	change(r)
}

func (l *ledger) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, do := range []func() error{l.file.Sync, l.file.Close} {
		if err := do(); err != nil && l.err == nil {
			l.err = err
		}
	}
	return l.err
}
