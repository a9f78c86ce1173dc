package secret

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"sync"
)

const (
	shortest = 6
	redacted = "***"
)

// Redactor knows secrets. The zero value knows none. It is safe for concurrent
// use.
type Redactor struct {
	mu    sync.RWMutex // guards known
	known [][]byte     // the longest first
}

// Learn adds a secret to what is cut out from now on.
func (r *Redactor) Learn(secret string) {
	if len(secret) < shortest {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	quoted, err := json.Marshal(secret)
	if err != nil {
		quoted = []byte(`""`)
	}
	for _, form := range [][]byte{[]byte(secret), quoted[1 : len(quoted)-1], []byte(url.QueryEscape(secret))} {
		if len(form) > 0 && !slices.ContainsFunc(r.known, func(k []byte) bool { return bytes.Equal(k, form) }) {
			r.known = append(r.known, form)
		}
	}
	// One secret may be the beginning of another.
	slices.SortStableFunc(r.known, func(a, b []byte) int { return len(b) - len(a) })
}

// Bytes is b without the secrets; b itself is left alone.
func (r *Redactor) Bytes(b []byte) []byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, k := range r.known {
		if bytes.Contains(b, k) {
			b = bytes.ReplaceAll(b, k, []byte(redacted))
		}
	}
	return b
}

// Text is Bytes for a string.
func (r *Redactor) Text(s string) string { return string(r.Bytes([]byte(s))) }

// Head is Bytes for the beginning of something longer: the cut may have gone
// through a secret, whose first half is one to keep as well.
func (r *Redactor) Head(b []byte) []byte {
	r.mu.RLock()
	for _, k := range r.known {
		for n := min(len(k)-1, len(b)); n > 0; n-- {
			if bytes.HasSuffix(b, k[:n]) {
				b = b[:len(b)-n]
				break
			}
		}
	}
	r.mu.RUnlock()
	return r.Bytes(b)
}

// Tail is the same for the end of something longer.
func (r *Redactor) Tail(b []byte) []byte {
	r.mu.RLock()
	for _, k := range r.known {
		for n := min(len(k)-1, len(b)); n > 0; n-- {
			if bytes.HasPrefix(b, k[len(k)-n:]) {
				b = b[n:]
				break
			}
		}
	}
	r.mu.RUnlock()
	return r.Bytes(b)
}
