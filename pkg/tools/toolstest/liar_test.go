package toolstest_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/toolstest"
)

func digestOf(body []byte) string {
	_, d, _ := protocol.DigestRequest(body)
	return d
}

// bent is an adapter that does something else in place of a call.
type bent struct {
	tools.Adapter

	call func(context.Context, tools.Request) tools.Outcome
}

func (b bent) Call(ctx context.Context, req tools.Request) tools.Outcome { return b.call(ctx, req) }

// bentAsking does something else in place of a query.
type bentAsking struct {
	tools.Adapter

	query func(context.Context, tools.Request) tools.Outcome
}

func (b bentAsking) Query(ctx context.Context, req tools.Request) tools.Outcome {
	return b.query(ctx, req)
}

func key() tools.Capabilities {
	return tools.Capabilities{Class: tools.ClassIdempotencyKey, RetentionMS: 86_400_000}
}

func byQuery() tools.Capabilities {
	return tools.Capabilities{Class: tools.ClassOperationQuery, Query: true}
}

func TestEachKindOfLieIsFoundOut(t *testing.T) {
	t.Parallel()
	type wrap = func(tools.Adapter, *toolstest.HTTP) tools.Adapter
	outcome := func(change func(*tools.Outcome)) wrap {
		return func(a tools.Adapter, _ *toolstest.HTTP) tools.Adapter {
			return bent{a, func(ctx context.Context, req tools.Request) tools.Outcome {
				o := a.Call(ctx, req)
				change(&o)
				return o
			}}
		}
	}
	nothing := tools.Capabilities{Class: tools.ClassNone}
	plainly := toolstest.Dialect{Recognises: toolstest.NotAtAll}

	for _, tc := range []struct {
		name     string
		caps     tools.Capabilities
		dialect  toolstest.Dialect
		wrap     wrap
		scenario string
		says     string
	}{
		{"a remote that does not deduplicate", key(), plainly, nil, "commit_then_drop", "2 effects"},
		{"a remote that forgets early", key(), toolstest.Dialect{Retention: time.Second}, nil, "commit_then_drop", "2 effects"},
		{
			"a remote that does not compare",
			tools.Capabilities{Class: tools.ClassIdempotencyKey, RetentionMS: 86_400_000, RejectsMismatch: true},
			toolstest.Dialect{},
			nil, "parameter_mismatch", `ended as "succeeded"`,
		},
		{"an adapter that takes doubt for failure", nothing, plainly, outcome(func(o *tools.Outcome) {
			if o.Kind == tools.Unknown {
				o.Kind = tools.Rejected
			}
		}), "commit_then_drop", "the effect exists"},
		{"an adapter that takes doubt for success", nothing, plainly, outcome(func(o *tools.Outcome) {
			if o.Kind == tools.Unknown {
				o.Kind = tools.Succeeded
			}
		}), "close_before_reading", "there is no effect"},
		{"an adapter that says not sent of what was", nothing, plainly, outcome(func(o *tools.Outcome) {
			if o.Kind == tools.Unknown {
				o.Kind = tools.NotSent
			}
		}), "commit_then_drop", "said not_sent"},
		{"an adapter that says not executed of what was", nothing, plainly, outcome(func(o *tools.Outcome) {
			if o.Kind == tools.Unknown {
				o.Kind = tools.NotExecuted
			}
		}), "slow_commit", "effects of one operation"},
		{"an adapter that claims absence", nothing, plainly, outcome(func(o *tools.Outcome) {
			if o.Kind == tools.Unknown {
				o.Kind = tools.Absent
			}
		}), "commit_then_drop", "must not come to"},
		{"an adapter that is deaf to Retry-After", nothing, plainly, outcome(func(o *tools.Outcome) {
			o.RetryAfter = 0
		}), "throttle_date", "asked for a delay"},
		{"an adapter that tries again by itself", key(), toolstest.Dialect{}, func(a tools.Adapter, _ *toolstest.HTTP) tools.Adapter {
			return bent{a, func(ctx context.Context, req tools.Request) tools.Outcome {
				if o := a.Call(ctx, req); o.Kind != tools.Unknown {
					return o
				}
				return a.Call(ctx, req)
			}}
		}, "commit_then_drop", "one call sent 2 requests"},
		{"an adapter that follows redirects", nothing, plainly, func(a tools.Adapter, r *toolstest.HTTP) tools.Adapter {
			return bent{a, func(ctx context.Context, req tools.Request) tools.Outcome {
				//nolint:bodyclose // plain has closed it
				if resp, err := plain(ctx, r.URL, req); err == nil && resp.StatusCode == http.StatusOK {
					return tools.Outcome{Kind: tools.Succeeded}
				}
				return tools.Outcome{Kind: tools.Unknown}
			}}
		}, "redirect", "one call sent 2 requests"},
		{"an adapter that asks no last time", nothing, plainly, func(a tools.Adapter, _ *toolstest.HTTP) tools.Adapter {
			return bent{a, func(ctx context.Context, req tools.Request) tools.Outcome {
				return a.Call(context.WithoutCancel(ctx), req)
			}}
		}, "deadline_over", "the right to send was over"},
		{"an adapter that does not come back", nothing, plainly, func(a tools.Adapter, _ *toolstest.HTTP) tools.Adapter {
			return bent{a, func(ctx context.Context, req tools.Request) tools.Outcome {
				return a.Call(context.WithoutCancel(ctx), req)
			}}
		}, "slow_commit", "had not come back"},
		{"a query that causes the effect", byQuery(), plainly, func(a tools.Adapter, _ *toolstest.HTTP) tools.Adapter {
			return bentAsking{a, a.Call}
		}, "close_before_reading", "a query was taken for a call"},
		{"a query that speaks of the question", byQuery(), plainly, func(a tools.Adapter, _ *toolstest.HTTP) tools.Adapter {
			return bentAsking{a, func(context.Context, tools.Request) tools.Outcome {
				return tools.Outcome{Kind: tools.NotExecuted}
			}}
		}, "close_before_reading", "a query must not come to"},
		{
			"a query that finds another's",
			tools.Capabilities{Class: tools.ClassDeterministicID, Query: true},
			toolstest.Dialect{Recognises: toolstest.ByName},
			func(a tools.Adapter, _ *toolstest.HTTP) tools.Adapter {
				return bentAsking{a, func(ctx context.Context, req tools.Request) tools.Outcome {
					o := a.(tools.Querier).Query(ctx, req)
					if o.Kind == tools.KeyConflict {
						o.Kind = tools.Succeeded
					}
					return o
				}}
			}, "foreign_owner", `ended as "succeeded"`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := suite(tc.caps, tc.dialect, tc.wrap)
			s.Patience = time.Second
			m := toolstest.Try(t, s)
			for _, row := range m {
				if row.Scenario == tc.scenario {
					if got := strings.Join(row.Violations, "; "); !strings.Contains(got, tc.says) {
						t.Errorf("%s: violations %q, want %q", row.Scenario, got, tc.says)
					}
					if m.Passed() || !strings.Contains(m.String(), "FAIL") {
						t.Error("the matrix passes all the same")
					}
					return
				}
			}
			t.Fatalf("no scenario %s", tc.scenario)
		})
	}
}
