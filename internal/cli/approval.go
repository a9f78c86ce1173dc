package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

func (e *env) operationApprove() *cobra.Command {
	var a store.Approval
	cmd := &cobra.Command{
		Use:   "approve OPERATION --reason WHY",
		Short: "Allow an operation that waits for approval to be sent",
		Long: `Allow an operation that waits for approval to be sent, once, within --valid-for.
Look at its request first: ` + "`leasehold operation show`" + `. With --digest the approval
is refused unless the request is the one with that digest.`,
		Example: `  leasehold operation list --needs-approval
  leasehold operation approve default/0190…/charge/1 --reason "amount checked with the customer"`,
		Args: exactArgs("OPERATION"),
		RunE: e.withStore(func(ctx context.Context, st *store.Store, args []string) error {
			return e.judgeApproval(ctx, st, a, args[0], "approved", st.ApproveOperation)
		}),
	}
	cmd.Flags().StringVar(&a.Digest, "digest", "", "digest of the request that was looked at (default: as it is now)")
	cmd.Flags().DurationVar(&a.ValidFor, "valid-for", 24*time.Hour, "how long it may wait to be sent, at most 720h")
	return cmd
}

func (e *env) operationDeny() *cobra.Command {
	var a store.Approval
	cmd := &cobra.Command{
		Use:   "deny OPERATION --reason WHY",
		Short: "Cancel an operation that waits for approval: it is never sent",
		Long: `Cancel an operation that waits for approval: it is never sent, and its run learns
that it was cancelled.`,
		Example: `  leasehold operation deny default/0190…/charge/1 --reason "customer has withdrawn the order"`,
		Args:    exactArgs("OPERATION"),
		RunE: e.withStore(func(ctx context.Context, st *store.Store, args []string) error {
			return e.judgeApproval(ctx, st, a, args[0], "denied", st.DenyOperation)
		}),
	}
	cmd.Flags().StringVar(&a.Digest, "digest", "", "digest of the request that was looked at (default: as it is now)")
	return cmd
}

func (e *env) operationAcknowledge() *cobra.Command {
	return &cobra.Command{
		Use:   "acknowledge OPERATION --reason WHY",
		Short: "Note that a contradicted operation was looked at",
		Long: `Note in the audit log that somebody has looked at an answer which contradicts the
final state of an operation, and what was done about it. The state stays what it
is; what has to be put right at the remote is not done by this.`,
		Example: `  leasehold operation list --contradicted
  leasehold operation acknowledge default/0190…/charge/1 --reason "refunded by hand, ticket 4711"`,
		Args: exactArgs("OPERATION"),
		RunE: e.withStore(func(ctx context.Context, st *store.Store, args []string) error {
			if e.reason == "" {
				return usageError{errors.New("--reason must be given: it goes to the audit log")}
			}
			n, err := st.AcknowledgeContradiction(ctx, protocol.OperationID(args[0]), e.by())
			if err != nil {
				return err
			}
			return e.print(map[string]any{"operation_id": args[0], "contradictions": n}, nil,
				[][]string{{args[0], "acknowledged"}})
		}),
	}
}

func (e *env) judgeApproval(
	ctx context.Context, st *store.Store, a store.Approval, id, verdict string,
	judge func(context.Context, store.Approval) error,
) error {
	a.OperationID, a.Actor = protocol.OperationID(id), e.by()
	if e.reason == "" {
		return usageError{errors.New("--reason must be given: it goes to the audit log")}
	}
	if a.Digest == "" {
		o, err := st.GetOperation(ctx, a.OperationID)
		if err != nil {
			return err
		}
		a.Digest = o.Digest
	}
	if err := judge(ctx, a); err != nil {
		return err
	}
	return e.print(map[string]any{"operation_id": a.OperationID, "verdict": verdict, "digest": a.Digest}, nil,
		[][]string{{id, verdict}})
}
