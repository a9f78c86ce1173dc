package acceptance_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// Experiment A. Claim: within one term of a lease every write is accepted, one
// after another: the revision moves by exactly one with each, the journal has
// them all in order, and nothing but the same epoch and owner wrote them.
func TestAConsecutiveCheckpointsOfOneEpochAllSucceed(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 1000} {
		t.Run(fmt.Sprintf("%d checkpoints", n), func(t *testing.T) {
			t.Parallel()
			e := experiment(t, "A", fmt.Sprintf("none: %d checkpoints one after another", n),
				"revisions consecutive, journal equal, one epoch")
			w := newWorld(t)
			run := w.Submit(store.NewTask{Workflow: "checkpoints", Input: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))})
			w.Start("scripted")
			row := w.UntilRun(run, protocol.RunSucceeded)

			// The start, the checkpoints and the completion.
			if want := int64(n + 2); row.Revision != want {
				t.Errorf("revision %d, want %d", row.Revision, want)
			}
			if got := w.Text(`SELECT count(*) || ' ' || min(revision) || ' ' || max(revision)
				FROM leasehold.run_journal WHERE run_id = $1`, run.String()); got != fmt.Sprintf("%d 1 %d", n+2, n+2) {
				t.Errorf("journal: %s", got)
			}
			if strays := w.Number(`SELECT count(*) FROM leasehold.run_journal
				WHERE run_id = $1 AND kind = 'checkpoint' AND payload <> jsonb_build_object('i', revision - 1)`, run.String()); strays != 0 {
				t.Errorf("%d checkpoints are not where they were written", strays)
			}
			terms := w.Number(`SELECT count(DISTINCT (owner, epoch)) FROM leasehold.run_journal
				WHERE run_id = $1 AND owner IS NOT NULL`, run.String())
			if terms != 1 || row.Epoch != 1 {
				t.Errorf("%d terms wrote, epoch %d", terms, row.Epoch)
			}
			e.observe("writes", n+2)
			e.observe("revision", row.Revision)
			e.observe("epochs", terms)
		})
	}
}
