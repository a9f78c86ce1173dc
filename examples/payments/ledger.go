package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// The kinds of ledger entry.
const (
	// KindArrival: a request reached the service. It is written before the
	// service decides anything, so no effect is without an arrival.
	KindArrival = "arrival"
	// KindEffect: something happened in the world, once for each line.
	KindEffect = "effect"
)

// Entry is one line of the ledger.
type Entry struct {
	// Seq counts the lines from 1 and At never goes back along them.
	Seq      int64     `json:"seq"`
	At       time.Time `json:"at"`
	Kind     string    `json:"kind"`
	Endpoint string    `json:"endpoint"`
	// OperationID and RunID are what the caller said it was calling for.
	OperationID string `json:"operation_id,omitempty"`
	RunID       string `json:"run_id,omitempty"`
	// Client is which of the caller's processes sent it.
	Client string `json:"client,omitempty"`
	// Key is what the endpoint deduplicates by; empty where it does not.
	Key    string `json:"key,omitempty"`
	Digest string `json:"digest,omitempty"`
	// EffectID and Answer are set on effects.
	EffectID string          `json:"effect_id,omitempty"`
	Answer   json.RawMessage `json:"answer,omitempty"`
}

// Ledger is an append-only file of JSON lines. An entry that Append returned
// has been fsynced. It is safe for concurrent use; a second process is refused.
type Ledger struct {
	file *os.File

	// flushing is held while a batch is written; those who wait for it usually
	// find that their entry went to disk with somebody else's.
	flushing sync.Mutex

	mu      sync.Mutex // guards all below
	pending *batch
	seq     int64
	last    time.Time
	entries []Entry // on disk
	broken  error
}

// batch is the entries that share one write and one fsync.
type batch struct {
	entries []Entry
	lines   bytes.Buffer
	// flushed and err are guarded by Ledger.flushing.
	flushed bool
	err     error
}

// OpenLedger opens or creates the ledger at path and reads it back. A last line
// that a crash cut off was never acknowledged to anybody: it is removed. Damage
// anywhere else is an error.
func OpenLedger(path string) (*Ledger, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	l := &Ledger{file: file, pending: &batch{}}
	if err := l.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("read ledger %s: %w", path, err), file.Close())
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger: %w", err), file.Close())
	}
	return l, nil
}

func (l *Ledger) load() error {
	if err := syscall.Flock(int(l.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("another process has it: %w", err)
	}
	content, err := io.ReadAll(l.file)
	if err != nil {
		return err
	}
	whole := bytes.LastIndexByte(content, '\n') + 1
	if whole < len(content) {
		if err := l.file.Truncate(int64(whole)); err != nil {
			return err
		}
	}
	for line := range bytes.Lines(content[:whole]) {
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("line %d: %w", l.seq+1, err)
		}
		if e.Seq != l.seq+1 {
			return fmt.Errorf("line %d has sequence %d", l.seq+1, e.Seq)
		}
		l.seq, l.last = e.Seq, e.At
		l.entries = append(l.entries, e)
	}
	return nil
}

// Append numbers and dates the entry and returns once it is on disk. After a
// failed write the file's end is unknown, so every later Append fails too.
func (l *Ledger) Append(e Entry) (Entry, error) {
	e, mine, err := l.enqueue(e)
	if err != nil {
		return Entry{}, err
	}
	l.flushing.Lock()
	defer l.flushing.Unlock()
	if !mine.flushed {
		l.flush()
	}
	return e, mine.err
}

func (l *Ledger) enqueue(e Entry) (Entry, *batch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return Entry{}, nil, l.broken
	}
	e.Seq = l.seq + 1
	e.At = time.Now().UTC()
	if e.At.Before(l.last) {
		e.At = l.last
	}
	line, err := json.Marshal(e)
	if err != nil {
		return Entry{}, nil, fmt.Errorf("encode ledger entry: %w", err)
	}
	l.seq, l.last = e.Seq, e.At
	l.pending.entries = append(l.pending.entries, e)
	l.pending.lines.Write(append(line, '\n'))
	return e, l.pending, nil
}

// flush writes the pending batch. The caller holds l.flushing.
func (l *Ledger) flush() {
	l.mu.Lock()
	b, broken := l.pending, l.broken
	l.pending = &batch{}
	l.mu.Unlock()

	b.flushed, b.err = true, broken
	if b.err == nil {
		b.err = l.write(b.lines.Bytes())
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if b.err != nil {
		l.broken = b.err
		return
	}
	l.entries = append(l.entries, b.entries...)
}

func (l *Ledger) write(lines []byte) error {
	if _, err := l.file.Write(lines); err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("sync ledger: %w", err)
	}
	return nil
}

// Entries returns what is on disk after the given sequence number, in order.
func (l *Ledger) Entries(after int64) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	after = min(max(after, 0), int64(len(l.entries)))
	return slices.Clone(l.entries[after:])
}

// Close closes the file and lets another process have it.
func (l *Ledger) Close() error { return l.file.Close() }

// syncDir makes a newly created file's name survive a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
