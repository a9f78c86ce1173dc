package config

import (
	"fmt"
	"io"
	"log/slog"
)

const masked = "***"

// Secret is a text that prints as *** in fmt (every verb), slog, JSON and YAML.
type Secret struct {
	// A pointer, since fmt prints the contents of an unexported field without
	// asking its methods: a Secret inside somebody's unexported field shows an
	// address.
	text *string
}

// NewSecret returns s as a Secret.
func NewSecret(s string) Secret { return Secret{text: &s} }

// Reveal returns the text itself.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether s is empty.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return masked
}

// Format implements fmt.Formatter, which fmt asks before anything else and for
// every verb, %#v and %x included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements encoding.TextMarshaler, which JSON and YAML ask.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
