package httptool

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
)

// param is a header or query parameter that is ready to be filled in.
type param struct {
	name   string
	prefix string
	value  template
	secret source // nil for a template
}

// source yields a secret. It is asked for each request, so that a rotated file
// takes effect without a restart.
type source func() (string, error)

func fromEnv(name string) source {
	return func() (string, error) {
		value := os.Getenv(name)
		if value == "" {
			return "", fmt.Errorf("environment variable %s is empty", name)
		}
		return value, nil
	}
}

func fromFile(path string) source {
	return func() (string, error) {
		b, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("read secret: %w", err)
		}
		value := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
		if value == "" {
			return "", fmt.Errorf("read secret: %s is empty", path)
		}
		return value, nil
	}
}

var errUnsendable = errors.New("cannot be sent in a header: it holds a line break or another control character")

func (p param) render(v values, known *redactor) (string, error) {
	if p.secret == nil {
		return p.value.render(v)
	}
	value, err := p.secret()
	if err != nil {
		return "", err
	}
	known.learn(value)
	return p.prefix + value, nil
}

// checkSecrets finds out at start-up what would otherwise be found out with the
// first operation.
func checkSecrets(section string, list []param) error {
	var errs []error
	for i, p := range list {
		if p.secret == nil {
			continue
		}
		value, err := p.secret()
		if err == nil && !sendable(value) {
			err = errUnsendable
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s[%d] (%s): %w", section, i, p.name, err))
		}
	}
	return errors.Join(errs...)
}

// sendable reports whether s can be a header's value. A line break in it would
// be a header of its own.
func sendable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 && r != '\t' || r == 0x7f })
}

// redactor cuts secrets out of what is kept. Remotes echo requests, in error
// pages above all.
type redactor struct {
	mu    sync.RWMutex // guards known
	known [][]byte
}

const (
	// Shorter values would cut out half of every answer, and guessing them is
	// easy anyway.
	minSecret = 6
	redacted  = "***"
)

func (r *redactor) learn(secret string) {
	if len(secret) < minSecret {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	quoted := quote(secret)
	for _, form := range [][]byte{[]byte(secret), quoted[1 : len(quoted)-1], []byte(url.QueryEscape(secret))} {
		if !slices.ContainsFunc(r.known, func(k []byte) bool { return bytes.Equal(k, form) }) {
			r.known = append(r.known, form)
		}
	}
}

func (r *redactor) bytes(b []byte) []byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, k := range r.known {
		if bytes.Contains(b, k) {
			b = bytes.ReplaceAll(b, k, []byte(redacted))
		}
	}
	return b
}

func (r *redactor) text(s string) string { return string(r.bytes([]byte(s))) }

func (r *redactor) header(h http.Header, names []string) map[string]string {
	kept := make(map[string]string)
	for _, name := range names {
		if values := h.Values(name); len(values) > 0 {
			kept[name] = r.text(strings.Join(values, ", "))
		}
	}
	return kept
}
