package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

func (e *env) runCommand() *cobra.Command {
	return group("run", "Look at runs and cancel them", e.runList(), e.runShow(), e.runCancel())
}

func (e *env) runList() *cobra.Command {
	var (
		p      pageFlags
		filter store.RunFilter
	)
	cmd := &cobra.Command{
		Use: "list", Short: "List runs, newest first", Args: noArgs,
		RunE: e.withStore(func(ctx context.Context, st *store.Store, _ []string) error {
			page, err := p.page()
			if err != nil {
				return err
			}
			list, err := st.ListRuns(ctx, filter, page)
			if err != nil {
				return err
			}
			return e.printRuns(list)
		}),
	}
	p.add(cmd)
	cmd.Flags().StringVar((*string)(&filter.Status), "status", "", "only those in this state")
	cmd.Flags().StringVar((*string)(&filter.TaskID), "task", "", "only those of this task")
	cmd.Flags().StringVar(&filter.Workflow, "workflow", "", "only those of this workflow")
	return cmd
}

func (e *env) printRuns(list []store.RunView) error {
	rows := make([][]string, 0, len(list))
	for _, r := range list {
		rows = append(rows, []string{
			r.RunID.String(), string(r.TaskID), string(r.Status), strconv.FormatInt(int64(r.Revision), 10),
			strconv.FormatInt(int64(r.Epoch), 10), r.Why, stamp(r.CreatedAt),
		})
	}
	return e.print(list, []string{"run", "task", "status", "revision", "epoch", "now", "created"}, rows)
}

// runDetail is a run with its history.
type runDetail struct {
	store.RunView
	Terms      []store.LeaseTerm     `json:"lease_terms"`
	Journal    []journalEntry        `json:"journal"`
	Operations []store.OperationView `json:"operations"`
}

type journalEntry struct {
	Revision  protocol.Revision `json:"revision"`
	Kind      string            `json:"kind"`
	StepID    protocol.StepID   `json:"step_id,omitempty"`
	Epoch     protocol.Epoch    `json:"epoch,omitempty"`
	Owner     string            `json:"owner,omitempty"`
	CreatedAt string            `json:"created_at"`
}

func (e *env) runShow() *cobra.Command {
	return &cobra.Command{
		Use: "show RUN", Short: "Show a run: who owned it, what it wrote, what it asked for", Args: exactArgs("RUN"),
		RunE: e.withStore(func(ctx context.Context, st *store.Store, args []string) error {
			id, err := protocol.ParseRunID(args[0])
			if err != nil {
				return usageError{err}
			}
			d, err := readDetail(ctx, st, id)
			if err != nil {
				return err
			}
			return e.printDetail(d)
		}),
	}
}

func readDetail(ctx context.Context, st *store.Store, id protocol.RunID) (d runDetail, err error) {
	if d.RunView, err = st.GetRun(ctx, id); err != nil {
		return d, err
	}
	if d.Terms, err = st.LeaseTerms(ctx, id); err != nil {
		return d, err
	}
	entries, err := st.RunJournal(ctx, id, 0, 10_000)
	if err != nil {
		return d, err
	}
	for _, j := range entries {
		owner := ""
		if !j.Owner.IsZero() {
			owner = j.Owner.String()
		}
		d.Journal = append(d.Journal, journalEntry{j.Revision, j.Kind, j.StepID, j.Epoch, owner, stamp(j.CreatedAt)})
	}
	d.Operations, err = st.ListOperations(ctx, store.OperationFilter{RunID: id}, store.Page{Limit: 1000})
	return d, err
}

func (e *env) printDetail(d runDetail) error {
	if e.output == "json" {
		return e.printJSON(d)
	}
	resumed := ""
	if d.ResumedFrom != nil {
		resumed = d.ResumedFrom.String()
	}
	if err := e.printPairs(nil, []pair{
		{"run", d.RunID.String()},
		{"task", string(d.TaskID)},
		{"workflow", d.Workflow},
		{"status", string(d.Status)},
		{"now", d.Why},
		{"revision", strconv.FormatInt(int64(d.Revision), 10)},
		{"attempts", fmt.Sprintf("%d of %d", d.Attempts, d.MaxAttempts)},
		{"resumes", resumed},
		{"owner", d.Owner},
		{"created", stamp(d.CreatedAt)},
		{"finished", stampOf(d.FinishedAt)},
		{"result", string(d.Result)},
		{"failure", string(d.Failure)},
	}); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(e.Out, "\nterms")
	for _, t := range d.Terms {
		_, _ = fmt.Fprintf(e.Out, "  epoch %-3d %s  %s  %s\n", t.Epoch, stamp(t.CreatedAt), t.Owner, t.Worker)
	}
	_, _ = fmt.Fprintln(e.Out, "\njournal")
	for _, j := range d.Journal {
		_, _ = fmt.Fprintf(e.Out, "  %4d %-10s %-24s epoch %-3d %s\n", j.Revision, j.Kind, j.StepID, j.Epoch, j.CreatedAt)
	}
	_, _ = fmt.Fprintln(e.Out, "\noperations")
	for _, o := range d.Operations {
		_, _ = fmt.Fprintf(e.Out, "  %-12s %-16s %s %s\n", o.Status, o.Tool, o.OperationID, o.Attention)
	}
	return nil
}

func (e *env) runCancel() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel RUN",
		Short: "End a run for good",
		Long: `End a run for good. Once this is answered, nothing that was only prepared is
ever sent. What is being sent, or is in doubt, stays what it is and converges to
the fact. A run that is finished already is a conflict (exit code 4).`,
		Args: exactArgs("RUN"),
		RunE: e.withStore(func(ctx context.Context, st *store.Store, args []string) error {
			id, err := protocol.ParseRunID(args[0])
			if err != nil {
				return usageError{err}
			}
			if err := st.CancelRun(ctx, id, e.by()); err != nil {
				return err
			}
			return e.print(map[string]string{"run_id": args[0], "status": "cancelled"}, nil, [][]string{{args[0], "cancelled"}})
		}),
	}
}
