package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// spec is a plan that has been checked.
type spec struct {
	input json.RawMessage
	steps []step
}

type step struct {
	id      protocol.StepID
	tool    string
	request json.RawMessage
	version protocol.EffectVersion
	// approval: a person must allow it before it is sent.
	approval bool
	needs    map[protocol.StepID]struct{} // those that are written and those that follow from references
}

// stepInput is a step as it is written.
type stepInput struct {
	ID            string          `json:"id"`
	Tool          string          `json:"tool"`
	Request       json.RawMessage `json:"request"`
	Needs         []string        `json:"needs"`
	EffectVersion *int32          `json:"effect_version"`
	Approval      bool            `json:"approval"`
}

// Validate reports all that is wrong with a plan, each problem with its place.
// If tools are given, a step that names another one is a problem too; without
// them that is left to whoever knows the tools.
func Validate(input []byte, tools ...string) error {
	s, err := parse(input)
	if err != nil {
		return err
	}
	if len(tools) == 0 {
		return nil
	}
	known := make(map[string]struct{}, len(tools))
	for _, t := range tools {
		known[t] = struct{}{}
	}
	var problems []error
	for i, st := range s.steps {
		if _, ok := known[st.tool]; !ok {
			problems = append(problems, problem(i, "tool", "no tool %q; known are %s", st.tool, strings.Join(tools, ", ")))
		}
	}
	return errors.Join(problems...)
}

func parse(input []byte) (spec, error) {
	var doc struct {
		Steps []json.RawMessage `json:"steps"`
	}
	// Canonical form is what the rest relies on: no duplicate names anywhere.
	if _, err := protocol.Canonical(input); err != nil {
		return spec{}, fmt.Errorf("plan: %w", err)
	}
	if err := json.Unmarshal(input, &doc); err != nil {
		return spec{}, fmt.Errorf("plan: %w: %w", protocol.ErrInvalid, err)
	}
	if len(doc.Steps) == 0 {
		return spec{}, fmt.Errorf(`plan: %w: "steps" is missing or empty`, protocol.ErrInvalid)
	}
	s := spec{input: input, steps: make([]step, len(doc.Steps))}
	var problems []error
	index := make(map[protocol.StepID]int, len(doc.Steps))
	for i, raw := range doc.Steps {
		st, errs := parseStep(i, raw, input)
		problems = append(problems, errs...)
		if first, dup := index[st.id]; dup && st.id != "" {
			problems = append(problems, problem(i, "id", "%q is the id of steps[%d] already", st.id, first))
		} else {
			index[st.id] = i
		}
		s.steps[i] = st
	}
	for i, st := range s.steps {
		for _, need := range sorted(st.needs) {
			if _, ok := index[need]; !ok {
				problems = append(problems, problem(i, "needs", "there is no step %q", need))
			}
		}
	}
	if len(problems) == 0 {
		if cycle := findCycle(s.steps, index); cycle != "" {
			problems = append(problems, fmt.Errorf("plan: %w: steps wait for each other: %s", protocol.ErrInvalid, cycle))
		}
	}
	return s, errors.Join(problems...)
}

func parseStep(i int, raw, input json.RawMessage) (step, []error) {
	var in stepInput
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return step{}, []error{fmt.Errorf("plan: steps[%d]: %w: %w", i, protocol.ErrInvalid, err)}
	}
	st := step{
		id: protocol.StepID(in.ID), tool: in.Tool, request: in.Request, version: 1, approval: in.Approval,
		needs: make(map[protocol.StepID]struct{}),
	}
	var problems []error
	if err := checkID(in.ID); err != nil {
		problems = append(problems, problem(i, "id", "%w", err))
	}
	if in.Tool == "" {
		problems = append(problems, problem(i, "tool", "is missing"))
	}
	if in.Request == nil {
		problems = append(problems, problem(i, "request", "is missing"))
	}
	if in.EffectVersion != nil {
		st.version = protocol.EffectVersion(*in.EffectVersion)
		if st.version < 1 {
			problems = append(problems, problem(i, "effect_version", "is %d; versions count from 1", st.version))
		}
	}
	for _, need := range in.Needs {
		st.needs[protocol.StepID(need)] = struct{}{}
	}
	if in.Request != nil {
		problems = append(problems, st.checkReferences(i, input)...)
	}
	return st, problems
}

// checkReferences adds the steps that the request refers to to its needs.
func (st *step) checkReferences(i int, input json.RawMessage) []error {
	refs, err := protocol.References(st.request)
	if err != nil {
		return []error{problem(i, "request", "%w", err)}
	}
	var problems []error
	for _, text := range refs {
		ref, err := parseReference(text)
		switch {
		case err != nil:
			problems = append(problems, problem(i, "request", "%w", err))
		case ref.step != "":
			st.needs[ref.step] = struct{}{}
		default:
			// The input is there already, so a pointer into nothing can be told
			// before anything runs.
			if _, err := protocol.Lookup(input, ref.pointer); err != nil {
				problems = append(problems, problem(i, "request", "reference %q: %w", text, err))
			}
		}
	}
	return problems
}

// checkID accepts ids that can be part of an operation's id; '#', which ends
// the id in a reference, is not among their characters.
func checkID(id string) error {
	if id == "" {
		return errors.New("is missing")
	}
	return protocol.ValidateStepID(protocol.StepID(id))
}

func problem(i int, field, format string, args ...any) error {
	return fmt.Errorf("plan: steps[%d].%s: %w: %w", i, field, protocol.ErrInvalid, fmt.Errorf(format, args...))
}
