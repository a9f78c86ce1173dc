package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// logs follows the log files of the workers: what a worker was refused, it
// says there, with the owner and epoch that it wrote under.
type logs struct {
	workers  []*process
	read     map[*process]int64
	refusals []refusal
}

func newLogs(workers ...*process) *logs {
	return &logs{workers: workers, read: map[*process]int64{}}
}

// record is what we use of a line of a worker's log.
type record struct {
	Time   time.Time `json:"time"`
	Msg    string    `json:"msg"`
	RunID  string    `json:"run_id"`
	Owner  string    `json:"owner"`
	Epoch  int64     `json:"epoch"`
	Reason string    `json:"reason"`
	Kind   string    `json:"kind"`
}

// refused says which write the database refused, "" if the record is of
// something else.
func (r record) refused() string {
	if r.Reason != "lease_lost" && r.Reason != "terminal" {
		return ""
	}
	switch r.Msg {
	case "lease renewal refused":
		return "a renewal of the lease: " + r.Reason
	case "protected write refused":
		return fmt.Sprintf("a protected write (%s): %s", r.Kind, r.Reason)
	}
	return ""
}

// poll reads what the workers have logged since the last call.
func (l *logs) poll() error {
	for _, p := range l.workers {
		lines, err := l.more(p)
		if err != nil {
			return fmt.Errorf("read log of %s: %w", p.name, err)
		}
		for line := range bytes.Lines(lines) {
			var r record
			if json.Unmarshal(line, &r) == nil {
				l.note(p.name, r)
			}
		}
	}
	return nil
}

// more returns the whole lines after those that were read before.
func (l *logs) more(p *process) ([]byte, error) {
	f, err := os.Open(p.log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(l.read[p], io.SeekStart); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	whole := bytes.LastIndexByte(content, '\n') + 1
	l.read[p] += int64(whole)
	return content[:whole], nil
}

func (l *logs) note(worker string, r record) {
	if write := r.refused(); write != "" {
		l.refusals = append(l.refusals, refusal{
			Worker: worker, Run: r.RunID, Owner: r.Owner, Epoch: r.Epoch,
			Reason: r.Reason, What: write, At: r.Time,
		})
	}
}
