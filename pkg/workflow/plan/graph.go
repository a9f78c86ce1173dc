package plan

import (
	"maps"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// findCycle returns "a -> b -> a" if steps wait for each other, "" if not.
func findCycle(steps []step, index map[protocol.StepID]int) string {
	const (
		untouched = iota
		onPath
		clear
	)
	mark := make([]int, len(steps))
	var path []string
	var visit func(i int) string
	visit = func(i int) string {
		path = append(path, string(steps[i].id))
		switch mark[i] {
		case clear:
			path = path[:len(path)-1]
			return ""
		case onPath:
			first := slices.Index(path, string(steps[i].id))
			return strings.Join(path[first:], " -> ")
		}
		mark[i] = onPath
		for _, need := range sorted(steps[i].needs) {
			if cycle := visit(index[need]); cycle != "" {
				return cycle
			}
		}
		mark[i] = clear
		path = path[:len(path)-1]
		return ""
	}
	for i := range steps {
		if cycle := visit(i); cycle != "" {
			return cycle
		}
	}
	return ""
}

// ready returns the steps that have no result yet and whose needs all have, in
// the order of the plan.
func ready(steps []step, done func(protocol.StepID) bool) []step {
	var out []step
	for _, st := range steps {
		if !done(st.id) && st.met(done) {
			out = append(out, st)
		}
	}
	return out
}

func (st step) met(done func(protocol.StepID) bool) bool {
	for need := range st.needs {
		if !done(need) {
			return false
		}
	}
	return true
}

func sorted(ids map[protocol.StepID]struct{}) []protocol.StepID {
	return slices.Sorted(maps.Keys(ids))
}
