package store_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

func TestTheDocumentListsEveryCheck(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "| `") {
			listed = append(listed, strings.TrimSpace(line))
		}
	}
	var want []string
	for _, c := range store.DoctorChecks() {
		scans := c.Scans
		if c.ByClock {
			scans = strings.TrimPrefix(scans+"; by the clock", "; ")
		}
		want = append(want, strings.Join([]string{
			"| `" + c.Code + "`", string(c.Severity), c.Title, c.Meaning, c.Action, scans + " |",
		}, " | "))
	}
	for _, w := range want {
		if !slices.Contains(listed, w) {
			t.Errorf("docs/doctor.md lacks or misstates:\n%s", w)
		}
	}
	if len(listed) != len(want) {
		t.Errorf("docs/doctor.md lists %d checks, there are %d", len(listed), len(want))
	}
}

func TestChecksAreNamedOnceAndSayWhatToDo(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range store.DoctorChecks() {
		if seen[c.Code] {
			t.Errorf("%s is there twice", c.Code)
		}
		seen[c.Code] = true
		for part, text := range map[string]string{"title": c.Title, "meaning": c.Meaning, "action": c.Action} {
			if text == "" || (part != "title") != strings.HasSuffix(text, ".") || strings.Contains(text, "|") {
				t.Errorf("%s: %s %q", c.Code, part, text)
			}
		}
	}
	for _, from := range protocol.OperationStatuses() {
		for _, to := range protocol.OperationStatuses() {
			if from.CanBecome(to) != strings.Contains(store.DoctorArcs, fmt.Sprintf("'%s','%s')", from, to)) {
				t.Errorf("the doctor and the protocol disagree about %s to %s", from, to)
			}
		}
	}
}
