package workflow_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/workflow"
)

func TestAStoppedExecutionIsNeverAnOutcomeOfTheRun(t *testing.T) {
	t.Parallel()
	causes := map[string]error{
		"lease lost":      protocol.ErrLeaseLost,
		"unconfirmed":     protocol.ErrRenewalUnconfirmed,
		"outcome unknown": protocol.ErrOutcomeUnknown,
		"parked":          errors.New("parked"),
	}
	answers := map[string]func(error) (any, error){
		"returned":             func(err error) (any, error) { return nil, err },
		"swallowed":            func(error) (any, error) { return "fine", nil },
		"replaced":             func(error) (any, error) { return nil, errBoom },
		"made into a failure":  func(err error) (any, error) { return nil, workflow.Fail(err) },
		"answered by a panic":  func(error) (any, error) { panic("stop!") },
		"answered by an exit":  func(error) (any, error) { runtime.Goexit(); return nil, nil },
		"swallowed by a retry": func(error) (any, error) { return nil, context.Canceled },
	}
	for cause, stop := range causes {
		for answer, fn := range answers {
			t.Run(cause+" "+answer, func(t *testing.T) {
				t.Parallel()
				l := newLedger()
				out := l.execute(t.Context(), func(ctx context.Context, r *workflow.Run) (any, error) {
					l.stop = &workflow.Stopped{Cause: stop}
					_, err := r.Call(ctx, "a", "x", 1)
					if !errors.Is(err, stop) {
						t.Errorf("error is %v, want %v", err, stop)
					}
					l.stop = nil
					// It is over for good, even if the backend had second thoughts.
					if _, err := r.Do(ctx, "b", func(context.Context) (any, error) { return 1, nil }); !errors.Is(err, stop) {
						t.Errorf("a later call answers %v, want %v", err, stop)
					}
					if err := r.Sleep(ctx, "c", time.Second); !errors.Is(err, stop) {
						t.Errorf("a later sleep answers %v, want %v", err, stop)
					}
					return fn(err)
				})
				if out.Kind != workflow.Over || !errors.Is(out.Err, stop) {
					t.Errorf("outcome is %d (%v), want over because of %v", out.Kind, out.Err, stop)
				}
				if len(l.records) != 0 {
					t.Errorf("records were written: %+v", l.records)
				}
			})
		}
	}
}

func TestAnErrorOfCodeWhoseContextWasCancelledIsNotAnOutcome(t *testing.T) {
	t.Parallel()
	cases := map[string]func(context.Context, *workflow.Run) (any, error){
		"an error of the code": func(ctx context.Context, _ *workflow.Run) (any, error) { return nil, ctx.Err() },
		"a failure the code makes of it": func(ctx context.Context, _ *workflow.Run) (any, error) {
			return nil, workflow.Fail(ctx.Err())
		},
		"a step's error that the code swallows": func(ctx context.Context, r *workflow.Run) (any, error) {
			_, _ = r.Do(ctx, "a", func(ctx context.Context) (any, error) { return nil, ctx.Err() })
			return "fine", nil
		},
	}
	for name, fn := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(protocol.ErrLeaseLost)
			out := newLedger().execute(ctx, fn)
			if out.Kind != workflow.Over || !errors.Is(out.Err, protocol.ErrLeaseLost) {
				t.Errorf("outcome is %d (%v), want over", out.Kind, out.Err)
			}
		})
	}
}

func TestAResultFinishedAfterTheContextEndedIsStillOffered(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	l := newLedger()
	out := l.execute(ctx, func(ctx context.Context, r *workflow.Run) (any, error) {
		return workflow.Do(ctx, r, "long", func(context.Context) (string, error) {
			cancel(protocol.ErrRenewalUnconfirmed)
			return "done", nil
		})
	})
	succeeded(t, out, `"done"`)
	if len(l.records) != 1 {
		t.Fatalf("%d records, want the step's", len(l.records))
	}
}

func TestOnlyAMarkedErrorOrALedgersNoFailsTheRun(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		err  error
		want workflow.OutcomeKind
	}{
		"any error":              {errBoom, workflow.Retry},
		"context error":          {context.DeadlineExceeded, workflow.Retry},
		"marked":                 {workflow.Fail(errBoom), workflow.Failed},
		"marked without a cause": {workflow.Fail(nil), workflow.Failed},
		"failed operation":       {&workflow.CallError{Status: protocol.OperationFailedFinal}, workflow.Failed},
		"marked and wrapped":     {errors.Join(errors.New("more"), workflow.Fail(errBoom)), workflow.Failed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := newLedger().execute(t.Context(), func(context.Context, *workflow.Run) (any, error) { return nil, c.err })
			if out.Kind != c.want || !errors.Is(out.Err, c.err) {
				t.Errorf("outcome is %d (%v), want %d", out.Kind, out.Err, c.want)
			}
		})
	}
}

func TestAPanicIsRetriedAndKeepsItsStack(t *testing.T) {
	t.Parallel()
	cases := map[string]func(context.Context, *workflow.Run) (any, error){
		"in the workflow": func(context.Context, *workflow.Run) (any, error) { panic("kaboom") },
		"in a step": func(ctx context.Context, r *workflow.Run) (any, error) {
			return r.Do(ctx, "a", func(context.Context) (any, error) { panic("kaboom") })
		},
		"in the result's encoding": func(context.Context, *workflow.Run) (any, error) { return explosive{}, nil },
	}
	for name, fn := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := newLedger().execute(t.Context(), fn)
			var p *workflow.PanicError
			if out.Kind != workflow.Retry || !errors.As(out.Err, &p) {
				t.Fatalf("outcome is %d (%v), want a retried panic", out.Kind, out.Err)
			}
			if !strings.Contains(p.Error(), "kaboom") || !strings.Contains(p.Error(), "stop_test.go") {
				t.Errorf("error lacks the value or the place: %v", p)
			}
		})
	}
}

type explosive struct{}

func (explosive) MarshalJSON() ([]byte, error) { panic("kaboom") }

func TestAResultThatIsNoJSONIsRetriedWithTheReason(t *testing.T) {
	t.Parallel()
	out := newLedger().execute(t.Context(), func(context.Context, *workflow.Run) (any, error) { return make(chan int), nil })
	if out.Kind != workflow.Retry || !strings.Contains(out.Err.Error(), "unsupported type") {
		t.Fatalf("outcome is %d (%v), want a retry that says why", out.Kind, out.Err)
	}
}

func TestConcurrentUseOfTheHandleIsRefusedAndTheRunDoesNotSucceed(t *testing.T) {
	t.Parallel()
	uses := map[string]func(context.Context, *workflow.Run) error{
		"from another goroutine": func(ctx context.Context, r *workflow.Run) error {
			errs := make(chan error)
			go func() { errs <- r.Checkpoint(ctx, 1) }()
			return <-errs
		},
		"from inside a step": func(ctx context.Context, r *workflow.Run) error {
			_, err := r.Call(ctx, "b", "x", 1)
			return err
		},
	}
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := newLedger().execute(t.Context(), func(ctx context.Context, r *workflow.Run) (any, error) {
				return r.Do(ctx, "a", func(ctx context.Context) (any, error) {
					if err := use(ctx, r); !errors.Is(err, workflow.ErrConcurrentUse) {
						t.Errorf("error is %v, want ErrConcurrentUse", err)
					}
					return nil, nil
				})
			})
			if out.Kind != workflow.Retry || !errors.Is(out.Err, workflow.ErrConcurrentUse) {
				t.Errorf("outcome is %d (%v), want a retry of ErrConcurrentUse", out.Kind, out.Err)
			}
		})
	}
}

func TestAHandleIsOfNoUseAfterItsWorkflowReturned(t *testing.T) {
	t.Parallel()
	var kept *workflow.Run
	newLedger().execute(t.Context(), func(_ context.Context, r *workflow.Run) (any, error) {
		kept = r
		return nil, nil
	})
	if err := kept.Checkpoint(t.Context(), 1); !errors.Is(err, workflow.ErrHandleClosed) {
		t.Fatalf("error is %v, want ErrHandleClosed", err)
	}
}
