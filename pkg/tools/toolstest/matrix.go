package toolstest

import (
	"fmt"
	"strings"
)

// Final is where an operation ended.
type Final string

// The ends.
const (
	// Succeeded: concluded that the effect exists.
	Succeeded Final = "succeeded"
	// Failed: concluded that the effect does not exist and will not.
	Failed Final = "failed"
	// Person: still unknown, and a person has been told.
	Person Final = "person"
)

// Row is one scenario and what came of it.
type Row struct {
	Scenario string
	Title    string
	// Applies is false if the tool or its remote cannot come into this
	// situation; all below is then empty.
	Applies bool
	Final   Final
	// Allowed are the ends that the tool's capabilities allow.
	Allowed []Final
	// Arrivals and Effects are the remote's counts of the operation; Queries is
	// how often it was asked about.
	Arrivals, Effects, Queries int
	// Violations are empty if the tool conforms.
	Violations []string
}

// Passed reports whether the row holds no violation.
func (r Row) Passed() bool { return len(r.Violations) == 0 }

// Matrix is the result of a suite, one row per scenario.
type Matrix []Row

// Passed reports whether no row holds a violation.
func (m Matrix) Passed() bool {
	for _, r := range m {
		if !r.Passed() {
			return false
		}
	}
	return true
}

// String is the matrix as a Markdown table.
func (m Matrix) String() string {
	var b strings.Builder
	b.WriteString("| scenario | ends | allowed | arrivals | effects | queries | |\n|---|---|---|---|---|---|---|\n")
	for _, r := range m {
		if !r.Applies {
			fmt.Fprintf(&b, "| %s |  |  |  |  |  | does not apply |\n", r.Title)
			continue
		}
		verdict := "pass"
		if !r.Passed() {
			verdict = "**FAIL**: " + strings.Join(r.Violations, "; ")
		}
		allowed := make([]string, len(r.Allowed))
		for i, a := range r.Allowed {
			allowed[i] = string(a)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %d | %d | %s |\n",
			r.Title, r.Final, strings.Join(allowed, ", "), r.Arrivals, r.Effects, r.Queries, verdict)
	}
	return b.String()
}
