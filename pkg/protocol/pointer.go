package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// ValidatePointer reports whether pointer is a JSON Pointer (RFC 6901).
func ValidatePointer(pointer string) error {
	_, err := splitPointer(pointer)
	return err
}

// Lookup copies the value at a JSON Pointer (RFC 6901) out of doc, byte for
// byte: a number keeps its digits, a string its escapes. The pointer "" is the
// whole document. It answers ErrNotFound if there is no such value, and
// ErrInvalid if the pointer or the document is broken or if a name on the way
// is there twice.
func Lookup(doc []byte, pointer string) (json.RawMessage, error) {
	steps, err := splitPointer(pointer)
	if err != nil {
		return nil, err
	}
	value, err := checkText(doc)
	if err != nil {
		return nil, err
	}
	for _, step := range steps {
		if value, err = child(value, step); err != nil {
			return nil, fmt.Errorf("look up JSON pointer %q: %w", pointer, err)
		}
	}
	return bytes.Clone(value), nil
}

func splitPointer(pointer string) ([]string, error) {
	if pointer == "" {
		return nil, nil
	}
	rest, ok := strings.CutPrefix(pointer, "/")
	if !ok {
		return nil, fmt.Errorf("%w: JSON pointer %q does not begin with '/'", ErrInvalid, pointer)
	}
	steps := strings.Split(rest, "/")
	for i, step := range steps {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(step), "~") {
			return nil, fmt.Errorf("%w: JSON pointer %q has '~' without 0 or 1 after it", ErrInvalid, pointer)
		}
		// NewReplacer takes one pass: "~01" is "~1", never "/".
		steps[i] = strings.NewReplacer("~0", "~", "~1", "/").Replace(step)
	}
	return steps, nil
}

// child returns the part of a checked value that one step of a pointer names.
func child(value []byte, step string) ([]byte, error) {
	dec := newLenientDecoder(value)
	switch dec.PeekKind() {
	case jsontext.KindBeginObject:
		return childOfObject(value, dec, step)
	case jsontext.KindBeginArray:
		return childOfArray(value, dec, step)
	}
	return nil, fmt.Errorf("%w: %q is neither an array's nor an object's", ErrNotFound, step)
}

func childOfObject(value []byte, dec *jsontext.Decoder, step string) ([]byte, error) {
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	var found []byte
	for dec.PeekKind() != jsontext.KindEndObject {
		quoted, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		// A name with a lone surrogate is no text, and no pointer can name it:
		// decoded, it would look like U+FFFD.
		name, nameErr := jsontext.AppendUnquote(nil, quoted)
		raw, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		if nameErr != nil || string(name) != step {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%w: member %q is there twice", ErrInvalid, step)
		}
		end := int(dec.InputOffset())
		found = value[end-len(raw) : end]
	}
	if found == nil {
		return nil, fmt.Errorf("%w: no member %q", ErrNotFound, step)
	}
	return found, nil
}

func childOfArray(value []byte, dec *jsontext.Decoder, step string) ([]byte, error) {
	// Only the digits as Itoa writes them: "01", "+1" and "-" name no element.
	index, err := strconv.Atoi(step)
	if err != nil || strconv.Itoa(index) != step {
		return nil, fmt.Errorf("%w: %q is no index of an array", ErrNotFound, step)
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	for i := 0; dec.PeekKind() != jsontext.KindEndArray; i++ {
		raw, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		if i == index {
			end := int(dec.InputOffset())
			return value[end-len(raw) : end], nil
		}
	}
	return nil, fmt.Errorf("%w: the array has no element %d", ErrNotFound, index)
}
