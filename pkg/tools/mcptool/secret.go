package mcptool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

var errControl = errors.New("holds a line break or another control character")

// read returns the parameter's value and teaches known its secret.
func (p Param) read(known *redactor) (string, error) {
	value := p.Value
	switch {
	case p.ValueEnv != "":
		if value = os.Getenv(p.ValueEnv); value == "" {
			return "", fmt.Errorf("environment variable %s is empty", p.ValueEnv)
		}
		known.learn(value)
	case p.ValueFile != "":
		b, err := os.ReadFile(p.ValueFile)
		if err != nil {
			return "", fmt.Errorf("read secret: %w", err)
		}
		if value = strings.TrimRight(string(b), "\r\n"); value == "" {
			return "", fmt.Errorf("read secret: %s is empty", p.ValueFile)
		}
		known.learn(value)
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r < 0x20 && r != '\t' || r == 0x7f }) {
		return "", fmt.Errorf("%s: %w", p.Name, errControl)
	}
	return p.Prefix + value, nil
}

// redactor cuts secrets out of what is logged or stored.
type redactor struct {
	mu    sync.RWMutex
	known [][]byte // guarded by mu
}

// Shorter values would cut out half of every answer, and guessing them is easy
// anyway.
const minSecret = 6

func (r *redactor) learn(secret string) {
	if len(secret) < minSecret {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	quoted, _ := json.Marshal(secret) // a string: nothing can fail
	for _, form := range [][]byte{[]byte(secret), quoted[1 : len(quoted)-1]} {
		if !slices.ContainsFunc(r.known, func(k []byte) bool { return bytes.Equal(k, form) }) {
			r.known = append(r.known, form)
		}
	}
}

func (r *redactor) bytes(b []byte) []byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, k := range r.known {
		b = bytes.ReplaceAll(b, k, []byte("***"))
	}
	return b
}

// line is s without secrets, on one line and not too long for a list.
func (r *redactor) line(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(string(r.bytes([]byte(s))), "\uFFFD")), " ")
	s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	if len(s) > 500 {
		s = strings.ToValidUTF8(s[:500], "") + "…"
	}
	return s
}
