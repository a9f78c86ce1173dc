package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

func (e *env) operationCommand() *cobra.Command {
	c := group("operation", "Look at operations and decide those in doubt",
		e.operationList(), e.operationShow(), e.operationResolve(), e.operationApprove(), e.operationDeny(),
		e.operationAcknowledge())
	c.Aliases = []string{"op"}
	return c
}

func (e *env) operationList() *cobra.Command {
	var (
		p      pageFlags
		filter store.OperationFilter
		run    string
	)
	cmd := &cobra.Command{
		Use: "list", Short: "List operations, newest first", Args: noArgs,
		Example: `  leasehold operation list --status unknown
  leasehold operation list --needs-person -o json`,
		RunE: e.withStore(func(ctx context.Context, st *store.Store, _ []string) error {
			page, err := p.page()
			if err != nil {
				return err
			}
			if run != "" {
				if filter.RunID, err = protocol.ParseRunID(run); err != nil {
					return usageError{err}
				}
			}
			list, err := st.ListOperations(ctx, filter, page)
			if err != nil {
				return err
			}
			rows := make([][]string, 0, len(list))
			for _, o := range list {
				rows = append(rows, []string{
					string(o.OperationID), string(o.Status), o.Tool, o.Class, strconv.Itoa(o.Attempts), age(o.UnknownSince), o.Attention,
				})
			}
			return e.print(list, []string{"operation", "status", "tool", "class", "sends", "in doubt for", "needs a person because"}, rows)
		}),
	}
	p.add(cmd)
	cmd.Flags().StringVar((*string)(&filter.Status), "status", "", "only those in this state")
	cmd.Flags().StringVar(&filter.Tool, "tool", "", "only those of this tool")
	cmd.Flags().StringVar(&run, "run", "", "only those of this run")
	cmd.Flags().BoolVar(&filter.NeedsPerson, "needs-person", false, "only those in doubt that wait for a person")
	cmd.Flags().BoolVar(&filter.Contradicted, "contradicted", false, "only those whose final state an answer contradicts that nobody has looked at")
	cmd.Flags().BoolVar(&filter.NeedsApproval, "needs-approval", false, "only those that are not sent before a person allows it")
	return cmd
}

func (e *env) operationShow() *cobra.Command {
	return &cobra.Command{
		Use: "show OPERATION", Short: "Show an operation with all evidence", Args: exactArgs("OPERATION"),
		RunE: e.withStore(func(ctx context.Context, st *store.Store, args []string) error {
			o, err := st.GetOperation(ctx, protocol.OperationID(args[0]))
			if err != nil {
				return err
			}
			events, err := st.OperationEvents(ctx, o.OperationID)
			if err != nil {
				return err
			}
			if e.output == "json" {
				return e.printJSON(struct {
					store.OperationView
					Events []store.OperationEvent `json:"events"`
				}{o, events})
			}
			return e.printOperation(o, events)
		}),
	}
}

func (e *env) printOperation(o store.OperationView, events []store.OperationEvent) error {
	if err := e.printPairs(nil, []pair{
		{"operation", string(o.OperationID)},
		{"task", string(o.TaskID)},
		{"tool", o.Tool + " (" + o.Class + ")"},
		{"status", string(o.Status)},
		{"revision", strconv.FormatInt(int64(o.Revision), 10)},
		{"sends", strconv.Itoa(o.Attempts)},
		{"first sent", stampOf(o.FirstSendAt)},
		{"held for", o.Hold},
		{"approved until", stampOf(o.ApprovedUntil)},
		{"digest", o.Digest},
		{"in doubt for", age(o.UnknownSince)},
		{"next attempt", stampOf(o.NextAttemptAt)},
		{"needs a person", o.Attention},
		{"resolved by", o.ResolvedBy},
		{"remote id", o.RemoteID},
		{"request", string(o.Request)},
		{"result", string(o.Result)},
	}); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(e.Out, "\nhistory")
	for _, ev := range events {
		_, _ = fmt.Fprintf(e.Out, "  %4d %s  %-13s %-26s %-13s %s\n", ev.Revision, stamp(ev.CreatedAt), ev.Kind,
			ev.From+" -> "+ev.To, ev.Basis, ev.Evidence)
	}
	return nil
}

func (e *env) operationResolve() *cobra.Command {
	var (
		happened, didNot bool
		d                store.Decision
		result           string
		revision         int64
	)
	cmd := &cobra.Command{
		Use:   "resolve OPERATION (--happened | --did-not-happen) --reason WHY",
		Short: "Decide an operation in doubt, after looking at the remote",
		Long: `Decide an operation in doubt. Look first: at the remote, and at
` + "`leasehold operation show`" + `. A decision is final, is made once, and is in the
audit log with who and why. An answer of the remote that comes later and
contradicts it is raised, not applied.`,
		Example: `  leasehold operation resolve default/0190…/notify/1 --happened --remote-id msg_77 --reason "seen in the mailbox"
  leasehold operation resolve default/0190…/notify/1 --did-not-happen --reason "provider's log has no such call"`,
		Args: exactArgs("OPERATION"),
		RunE: e.withStore(func(ctx context.Context, st *store.Store, args []string) error {
			d.OperationID, d.Actor = protocol.OperationID(args[0]), e.by()
			switch {
			case happened == didNot:
				return usageError{errors.New("exactly one of --happened and --did-not-happen must be given")}
			case e.reason == "":
				return usageError{errors.New("--reason must be given: it goes to the audit log")}
			case result != "" && !json.Valid([]byte(result)):
				return usageError{errors.New("--result must be JSON")}
			}
			d.Status = protocol.OperationFailedFinal
			if happened {
				d.Status = protocol.OperationSucceeded
			}
			if result != "" {
				d.Result = json.RawMessage(result)
			}
			d.Revision = protocol.Revision(revision)
			if revision < 0 {
				o, err := st.GetOperation(ctx, d.OperationID)
				if err != nil {
					return err
				}
				d.Revision = o.Revision
			}
			rev, err := st.DecideOperation(ctx, d)
			if err != nil {
				return err
			}
			return e.print(map[string]any{"operation_id": d.OperationID, "status": d.Status, "revision": rev}, nil,
				[][]string{{args[0], string(d.Status)}})
		}),
	}
	cmd.Flags().BoolVar(&happened, "happened", false, "the effect exists")
	cmd.Flags().BoolVar(&didNot, "did-not-happen", false, "the effect does not exist and never will")
	cmd.Flags().StringVar(&d.RemoteID, "remote-id", "", "what the remote calls the effect")
	cmd.Flags().StringVar(&result, "result", "", "the result that the workflow gets, as JSON")
	cmd.Flags().Int64Var(&revision, "revision", -1, "decide only if the operation is still at this revision (default: as it is now)")
	return cmd
}
