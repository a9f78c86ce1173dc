package protocol

import "testing"

// The two tables below are written by hand from docs/protocol.md, not derived
// from the code: row from, column to, x for allowed.

func TestRunTransitionsAreExactlyTheTable(t *testing.T) {
	t.Parallel()
	to := []RunStatus{"pending", "running", "succeeded", "failed", "cancelled", "", "unknown"}
	checkMatrix(t, to, RunStatus.CanBecome, map[RunStatus]string{
		"pending":   ".x..x..",
		"running":   ".xxxx..",
		"succeeded": ".......",
		"failed":    ".......",
		"cancelled": ".......",
		"":          ".......",
		"unknown":   ".......", // an operation's, never a run's
	})
	checkFinal(t, RunStatuses(), RunStatus.Terminal, RunStatus.CanBecome, "succeeded failed cancelled")
}

func TestOperationTransitionsAreExactlyTheTable(t *testing.T) {
	t.Parallel()
	to := []OperationStatus{"prepared", "dispatching", "unknown", "succeeded", "failed_final", "cancelled", "", "running"}
	checkMatrix(t, to, OperationStatus.CanBecome, map[OperationStatus]string{
		"prepared":     ".x...x..",
		"dispatching":  "..xxx...",
		"unknown":      "..xxx...",
		"succeeded":    "........",
		"failed_final": "........",
		"cancelled":    "........",
		"":             "........",
		"running":      "........",
	})
	checkFinal(t, OperationStatuses(), OperationStatus.Final, OperationStatus.CanBecome, "succeeded failed_final cancelled")
}

func checkMatrix[S ~string](t *testing.T, to []S, can func(S, S) bool, table map[S]string) {
	t.Helper()
	if len(table) != len(to) {
		t.Fatalf("table has %d rows and %d columns", len(table), len(to))
	}
	for from, row := range table {
		for i, s := range to {
			if want := row[i] == 'x'; can(from, s) != want {
				t.Errorf("%q -> %q: allowed %t, want %t", from, s, !want, want)
			}
		}
	}
}

// checkFinal: a state is final if and only if nothing leaves it.
func checkFinal[S ~string](t *testing.T, all []S, final func(S) bool, can func(S, S) bool, want string) {
	t.Helper()
	got := ""
	for _, from := range all {
		leaves := false
		for _, to := range all {
			leaves = leaves || can(from, to)
		}
		if final(from) == leaves {
			t.Errorf("%q: final %t, left by a transition %t", from, final(from), leaves)
		}
		if final(from) {
			got += string(from) + " "
		}
	}
	if got != want+" " {
		t.Errorf("final states are %q, want %q", got, want)
	}
	if final("") {
		t.Error("no state is final")
	}
}
