package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/workflow/plan"
)

func (e *env) taskCommand() *cobra.Command {
	return group("task", "Create, retry and look at tasks",
		e.taskCreate(), e.taskRetry(), e.taskList(), e.taskShow())
}

// createdTask is the answer of `task create` and `task retry`.
type createdTask struct {
	TaskID  protocol.TaskID `json:"task_id"`
	RunID   protocol.RunID  `json:"run_id"`
	Existed bool            `json:"existed"`
}

func (e *env) taskCreate() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "create -f FILE",
		Short: "Create tasks from a file (YAML or JSON, - for standard input)",
		Long: `Create tasks from a file: one task, or a list of them.

Creating is idempotent by task_id: the same definition again is the same task
(exit code 0), another definition under that id is a conflict (exit code 4).
The run's id is minted by the platform.`,
		Example: `  leasehold task create -f order-1.yaml

  # order-1.yaml
  task_id: order-1
  workflow: plan
  input:
    order: {id: 4711, amount: 4900}
    steps:
      - id: charge
        tool: payments
        request: {order: {$ref: "input#/order/id"}, amount: {$ref: "input#/order/amount"}}`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tasks, err := e.readTasks(file)
			if err != nil {
				return usageError{err}
			}
			if err := e.checkPlans(tasks); err != nil {
				return usageError{err}
			}
			return e.withStore(func(ctx context.Context, st *store.Store, _ []string) error {
				return e.createTasks(ctx, st, tasks)
			})(cmd, nil)
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "file with the task or tasks; - is standard input")
	return cmd
}

// checkPlans validates the built-in workflow's inputs before anything is
// created. Tool names are checked only where the configuration has tools.
func (e *env) checkPlans(tasks []store.NewTask) error {
	var names []string
	if cfg, err := e.load(""); err == nil {
		for _, t := range cfg.Tools {
			names = append(names, t.Name)
		}
	} else if !config.IsInvalid(err) {
		return err
	}
	var errs []error
	for _, t := range tasks {
		if t.Workflow != plan.Name {
			continue
		}
		if err := plan.Validate(t.Input, names...); err != nil {
			errs = append(errs, fmt.Errorf("task %q: %w", t.TaskID, err))
		}
	}
	return errors.Join(errs...)
}

func (e *env) createTasks(ctx context.Context, st *store.Store, tasks []store.NewTask) error {
	out, err := st.CreateTasks(ctx, e.by(), tasks)
	if err != nil {
		return err
	}
	var (
		errs []error
		made []createdTask
		rows [][]string
	)
	for _, o := range out {
		if o.Err != nil {
			errs = append(errs, o.Err)
			continue
		}
		made = append(made, createdTask{o.TaskID, o.RunID, o.Existed})
		rows = append(rows, []string{string(o.TaskID), o.RunID.String(), map[bool]string{true: "existed", false: "created"}[o.Existed]})
	}
	if err := e.print(made, []string{"task", "run", "outcome"}, rows); err != nil {
		return err
	}
	return errors.Join(errs...)
}

func (e *env) taskRetry() *cobra.Command {
	r := store.RetryTask{}
	cmd := &cobra.Command{
		Use:   "retry TASK",
		Short: "Give a finished task a new run",
		Long: `Give a task whose run is finished a new run.

By default the new run resumes: steps that were finished return their stored
results, under their old operation ids, and nothing is caused twice. --fresh
starts from nothing; if earlier runs have succeeded effects, they are listed,
and causing them again needs --repeat-effects and --reason.`,
		Args: exactArgs("TASK"),
		RunE: e.withStore(func(ctx context.Context, st *store.Store, args []string) error {
			r.TaskID, r.Actor = protocol.TaskID(args[0]), e.by()
			run, err := st.RetryTask(ctx, r)
			var effects *store.EffectsExistError
			if errors.As(err, &effects) {
				for _, id := range effects.Effects {
					e.say("succeeded already: %s", id)
				}
				return fmt.Errorf("%w; resume without --fresh, or give --repeat-effects and --reason", err)
			}
			if err != nil {
				return err
			}
			return e.print(createdTask{TaskID: r.TaskID, RunID: run}, []string{"task", "run"}, [][]string{{args[0], run.String()}})
		}),
	}
	cmd.Flags().BoolVar(&r.Fresh, "fresh", false, "start from nothing instead of resuming")
	cmd.Flags().BoolVar(&r.RepeatEffects, "repeat-effects", false, "with --fresh: cause succeeded effects again (needs --reason)")
	return cmd
}

func (e *env) taskList() *cobra.Command {
	p := pageFlags{}
	cmd := &cobra.Command{
		Use: "list", Short: "List tasks, newest first", Args: noArgs,
		RunE: e.withStore(func(ctx context.Context, st *store.Store, _ []string) error {
			page, err := p.page()
			if err != nil {
				return err
			}
			list, err := st.ListTasks(ctx, page)
			if err != nil {
				return err
			}
			return e.printTasks(list)
		}),
	}
	p.add(cmd)
	return cmd
}

func (e *env) printTasks(list []store.TaskView) error {
	rows := make([][]string, 0, len(list))
	for _, t := range list {
		rows = append(rows, []string{
			string(t.TaskID), string(t.Status), t.Workflow, t.ActiveRunID.String(), strconv.Itoa(t.Runs), stamp(t.CreatedAt),
		})
	}
	return e.print(list, []string{"task", "status", "workflow", "run", "runs", "created"}, rows)
}

func (e *env) taskShow() *cobra.Command {
	return &cobra.Command{
		Use: "show TASK", Short: "Show a task and its runs", Args: exactArgs("TASK"),
		RunE: e.withStore(func(ctx context.Context, st *store.Store, args []string) error {
			t, err := st.GetTask(ctx, protocol.TaskID(args[0]))
			if err != nil {
				return err
			}
			runs, err := st.ListRuns(ctx, store.RunFilter{TaskID: t.TaskID}, store.Page{})
			if err != nil {
				return err
			}
			if e.output == "json" {
				return e.printJSON(struct {
					store.TaskView
					RunList []store.RunView `json:"run_list"`
				}{t, runs})
			}
			if err := e.printPairs(nil, []pair{
				{"task", string(t.TaskID)},
				{"tenant", t.Tenant},
				{"workflow", t.Workflow},
				{"status", string(t.Status)},
				{"created", stamp(t.CreatedAt)},
			}); err != nil {
				return err
			}
			_, _ = fmt.Fprintln(e.Out)
			return e.printRuns(runs)
		}),
	}
}
