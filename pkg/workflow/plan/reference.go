package plan

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// reference is where a value comes from: a step's result, or the run's input.
type reference struct {
	step    protocol.StepID // "" means the input
	pointer string
}

// parseReference reads "input#/pointer" and "steps.ID#/pointer". The part from
// '#' on may be left out and then means the whole value.
func parseReference(text string) (reference, error) {
	source, pointer, _ := strings.Cut(text, "#")
	ref := reference{pointer: pointer}
	if err := protocol.ValidatePointer(pointer); err != nil {
		return reference{}, fmt.Errorf("reference %q: %w", text, err)
	}
	if source == "input" {
		return ref, nil
	}
	id, ok := strings.CutPrefix(source, "steps.")
	if !ok {
		return reference{}, fmt.Errorf(`reference %q: it begins with neither "input" nor "steps."`, text)
	}
	if err := checkID(id); err != nil {
		return reference{}, fmt.Errorf("reference %q: step id %w", text, err)
	}
	ref.step = protocol.StepID(id)
	return ref, nil
}

// fill replaces the references of a request.
func (s spec) fill(request json.RawMessage, results map[protocol.StepID]json.RawMessage) (json.RawMessage, error) {
	return protocol.Substitute(request, func(text string) (json.RawMessage, error) {
		ref, err := parseReference(text)
		if err != nil {
			return nil, err
		}
		doc := s.input
		if ref.step != "" {
			doc = results[ref.step]
		}
		return protocol.Lookup(doc, ref.pointer)
	})
}
