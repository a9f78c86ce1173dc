package tools_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leasehold/leasehold/pkg/tools"
)

func TestContradictingCapabilitiesAreRefusedByTheNameOfTheKey(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		caps tools.Capabilities
		want string
	}{
		{"no class", tools.Capabilities{MaxRequestMS: 1}, "class:"},
		{"unknown class", tools.Capabilities{Class: "exactly_once", MaxRequestMS: 1}, `"exactly_once"`},
		{"operation query without a query", tools.Capabilities{Class: tools.ClassOperationQuery, MaxRequestMS: 1}, "needs a query"},
		{"deterministic id without a query", tools.Capabilities{Class: tools.ClassDeterministicID, MaxRequestMS: 1}, "needs a query"},
		{"none with a query", tools.Capabilities{Class: tools.ClassNone, Query: true, MaxRequestMS: 1}, "operation_query"},
		{"no bound on a request", tools.Capabilities{Class: tools.ClassNone}, "max_request:"},
		{"negative bound", tools.Capabilities{Class: tools.ClassNone, MaxRequestMS: -1}, "max_request:"},
		{"bound beyond any clock", tools.Capabilities{Class: tools.ClassNone, MaxRequestMS: 1 << 62}, "max_request:"},
		{"retention of a tool without keys", tools.Capabilities{Class: tools.ClassNone, MaxRequestMS: 1, RetentionMS: 1000}, "retention:"},
		{"retention shorter than a request", tools.Capabilities{Class: tools.ClassIdempotencyKey, MaxRequestMS: 1000, RetentionMS: 1000}, "retention:"},
		{
			"retention shorter than request and settling",
			tools.Capabilities{Class: tools.ClassIdempotencyKey, Query: true, MaxRequestMS: 1000, SettleMS: 5000, RetentionMS: 6000},
			"retention:",
		},
		{"settling without a query", tools.Capabilities{Class: tools.ClassIdempotencyKey, MaxRequestMS: 1, SettleMS: 1}, "settle:"},
		{"absence without a query", tools.Capabilities{Class: tools.ClassNone, MaxRequestMS: 1, AbsenceIsProof: true}, "absence_is_proof:"},
		{"mismatch without a key", tools.Capabilities{Class: tools.ClassNone, MaxRequestMS: 1, RejectsMismatch: true}, "rejects_mismatch:"},
		{"unknown consent", tools.Capabilities{Class: tools.ClassNone, MaxRequestMS: 1, OnCancel: "retry"}, "on_cancel:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := tc.caps.Validate()
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v does not name %q", err, tc.want)
			}
		})
	}
}

func TestEveryContradictionIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	err := tools.Capabilities{Class: tools.ClassNone, Query: true, OnCancel: "x", RetentionMS: -1}.Validate()
	for _, want := range []string{"class:", "on_cancel:", "retention:", "max_request:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %q", err, want)
		}
	}
}

func TestASnapshotReadsBackAsWhatWasDeclared(t *testing.T) {
	t.Parallel()
	want := tools.Capabilities{
		Class: tools.ClassIdempotencyKey, Query: true, ReadOnly: true,
		RetentionMS: 86_400_000, MaxRequestMS: 30_000, SettleMS: 6_000,
		AbsenceIsProof: true, RejectsMismatch: true, OnCancel: tools.OnCancelComplete,
	}
	got, err := tools.ParseCapabilities(want.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the snapshot lost something (-want +got):\n%s", diff)
	}
	if got.Retention() != 24*time.Hour || got.MaxRequest() != 30*time.Second || got.Settle() != 6*time.Second {
		t.Errorf("durations are %s, %s, %s", got.Retention(), got.MaxRequest(), got.Settle())
	}
}

// The keys are read by SQL functions and by releases to come.
func TestTheSnapshotsKeysNeverChange(t *testing.T) {
	t.Parallel()
	got := string(tools.Capabilities{
		Class: tools.ClassIdempotencyKey, Query: true, ReadOnly: true,
		RetentionMS: 4, MaxRequestMS: 1, SettleMS: 2,
		AbsenceIsProof: true, RejectsMismatch: true, OnCancel: tools.OnCancelPerson,
	}.Snapshot())
	const want = `{"class":"idempotency_key","query":true,"read_only":true,"retention_ms":4,"max_request_ms":1,` +
		`"settle_ms":2,"absence_is_proof":true,"rejects_mismatch":true,"on_cancel":"person"}`
	if got != want {
		t.Errorf("snapshot\n %s\nwant\n %s", got, want)
	}
}

func TestASnapshotOfALaterReleaseIsReadAndAnImpossibleOneIsNot(t *testing.T) {
	t.Parallel()
	if _, err := tools.ParseCapabilities(json.RawMessage(`{"class":"none","max_request_ms":5,"teleports":true}`)); err != nil {
		t.Errorf("unknown key: %v", err)
	}
	for name, snapshot := range map[string]string{
		"null":             `null`,
		"not an object":    `[]`,
		"unknown class":    `{"class":"magic","max_request_ms":5}`,
		"no bound":         `{"class":"none"}`,
		"cut off":          `{"class":"no`,
		"fractional bound": `{"class":"none","max_request_ms":0.5}`,
	} {
		if _, err := tools.ParseCapabilities(json.RawMessage(snapshot)); err == nil {
			t.Errorf("%s: %s was accepted", name, snapshot)
		}
	}
}
