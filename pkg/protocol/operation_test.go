package protocol

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/uuid"
)

const runText = "0190a6e0-7b1c-7c3e-8a53-5f0f3a9d2b11"

func aRun(t testing.TB) RunID {
	t.Helper()
	run, err := ParseRunID(runText)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestAnOperationIDIsMadeOfTenantRunStepAndVersion(t *testing.T) {
	t.Parallel()
	id, err := NewOperationID("acme", aRun(t), "charge", 2)
	if err != nil {
		t.Fatal(err)
	}
	if want := OperationID("acme/" + runText + "/charge/2"); id != want {
		t.Errorf("got %s, want %s", id, want)
	}
	parts, err := ParseOperationID(id)
	if err != nil {
		t.Fatal(err)
	}
	if want := (OperationParts{"acme", aRun(t), "charge", 2}); parts != want {
		t.Errorf("got %v, want %v", parts, want)
	}
}

func TestTheLongestOperationIDFitsIntoAnIdempotencyKey(t *testing.T) {
	t.Parallel()
	id, err := NewOperationID(strings.Repeat("t", MaxTenant), aRun(t), StepID(strings.Repeat("s", MaxStepID)), math.MaxInt32)
	if err != nil {
		t.Fatal(err)
	}
	if len(id) != MaxOperationID || len(id) > 255 {
		t.Errorf("%d bytes; MaxOperationID is %d", len(id), MaxOperationID)
	}
	if _, err := ParseOperationID(id); err != nil {
		t.Error(err)
	}
}

func TestNewOperationIDNamesTheFieldItRefuses(t *testing.T) {
	t.Parallel()
	run := aRun(t)
	for _, c := range []struct {
		name    string
		tenant  string
		run     RunID
		step    StepID
		version EffectVersion
		field   string
	}{
		{"no tenant", "", run, "s", 1, "tenant is empty"},
		{"a long tenant", strings.Repeat("t", MaxTenant+1), run, "s", 1, "tenant has 64 bytes"},
		{"a slash in the tenant", "a/b", run, "s", 1, `tenant "a/b" has '/'`},
		{"a tenant of dots", "..", run, "s", 1, "tenant must not be"},
		{"no run", "t", RunID{}, "s", 1, "run id is zero"},
		{"no step", "t", run, "", 1, "step id is empty"},
		{"a long step", "t", run, StepID(strings.Repeat("s", MaxStepID+1)), 1, "step id has 129 bytes"},
		{"a slash in the step", "t", run, "a/1", 1, `step id "a/1" has '/'`},
		{"a space in the step", "t", run, "a b", 1, "step id"},
		{"a letter beyond ASCII in the step", "t", run, "é", 1, "step id"},
		{"a step that is not UTF-8", "t", run, "\xff", 1, "step id"},
		{"a step of one dot", "t", run, ".", 1, "step id must not be"},
		{"version zero", "t", run, "s", 0, "effect version 0"},
		{"a negative version", "t", run, "s", -1, "effect version -1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			id, err := NewOperationID(c.tenant, c.run, c.step, c.version)
			if !errors.Is(err, ErrInvalid) || id != "" || !strings.Contains(err.Error(), c.field) {
				t.Errorf("got %q, %v; want an error with %q", id, err, c.field)
			}
		})
	}
}

func TestParseOperationIDTakesOneSpellingOnly(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{
		"nothing":                   "",
		"too few parts":             "t/" + runText + "/s",
		"too many parts":            "t/" + runText + "/s/1/",
		"a run in capitals":         "t/" + strings.ToUpper(runText) + "/s/1",
		"a run in braces":           "t/{" + runText + "}/s/1",
		"a run as a URN":            "t/urn:uuid:" + runText + "/s/1",
		"a run without hyphens":     "t/" + strings.ReplaceAll(runText, "-", "") + "/s/1",
		"the zero run":              "t/00000000-0000-0000-0000-000000000000/s/1",
		"a version with zeros":      "t/" + runText + "/s/01",
		"a version with a plus":     "t/" + runText + "/s/+1",
		"version zero":              "t/" + runText + "/s/0",
		"a version beyond 32 bits":  "t/" + runText + "/s/4294967297",
		"no version":                "t/" + runText + "/s/",
		"no tenant":                 "/" + runText + "/s/1",
		"a space":                   " t/" + runText + "/s/1",
		"far too long":              "t/" + runText + "/" + strings.Repeat("s", 10_000) + "/1",
		"control characters inside": "t/" + runText + "/s\n/1",
	} {
		parts, err := ParseOperationID(OperationID(id))
		if !errors.Is(err, ErrInvalid) || parts != (OperationParts{}) {
			t.Errorf("%s: got %v, %v", name, parts, err)
		}
		if err != nil && len(err.Error()) > 700 {
			t.Errorf("%s: error of %d bytes", name, len(err.Error()))
		}
	}
}

func TestDifferentPartsNeverShareAnOperationID(t *testing.T) {
	t.Parallel()
	seen := map[OperationID]OperationParts{}
	runs := []RunID{aRun(t), RunID(uuid.Max)}
	for _, tenant := range []string{"a", "b", "a:1", "a.1", "1"} {
		for _, run := range runs {
			for _, step := range []StepID{"1", "a", "a:1", "1:1", "11", "A"} {
				for _, version := range []EffectVersion{1, 11, 111} {
					id, err := NewOperationID(tenant, run, step, version)
					if err != nil {
						t.Fatal(err)
					}
					parts := OperationParts{tenant, run, step, version}
					if other, ok := seen[id]; ok {
						t.Errorf("%v and %v are both %s", parts, other, id)
					}
					seen[id] = parts
				}
			}
		}
	}
}

func TestTaskIDsArePrintable(t *testing.T) {
	t.Parallel()
	for _, ok := range []TaskID{"order-1042", "Bestellung Nr. 7 / Müller", "注文", TaskID(strings.Repeat("x", MaxTaskID))} {
		if err := ValidateTaskID(ok); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
	for name, bad := range map[string]TaskID{
		"nothing":             "",
		"too long":            TaskID(strings.Repeat("x", MaxTaskID+1)),
		"a line break":        "a\nb",
		"NUL":                 "a\x00",
		"delete":              "a\x7f",
		"not UTF-8":           "a\xff",
		"a direction change":  "a\u202eb",
		"a zero-width space":  "a\u200bb",
		"a no-break space":    "a\u00a0b",
		"a replacement alike": "a\xed\xa0\x80",
	} {
		if err := ValidateTaskID(bad); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "task id") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIdentitiesSurviveText(t *testing.T) {
	t.Parallel()
	type identities struct {
		Run   RunID
		Owner Owner
	}
	in := identities{RunID(uuid.New()), NewOwner()}
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out identities
	if err := json.Unmarshal(raw, &out); err != nil || out != in {
		t.Errorf("%s became %v, %v", raw, out, err)
	}
	if err := json.Unmarshal([]byte(`{"Owner":"urn:uuid:`+runText+`"}`), &out); !errors.Is(err, ErrInvalid) {
		t.Errorf("an owner in another spelling: %v", err)
	}
	if owner, err := ParseOwner(in.Owner.String()); err != nil || owner != in.Owner {
		t.Errorf("got %s, %v", owner, err)
	}
	if !(RunID{}).IsZero() || !(Owner{}).IsZero() || in.Run.IsZero() || in.Owner.IsZero() {
		t.Error("IsZero is wrong")
	}
	if other := NewOwner(); other == in.Owner || NewCallID() == CallID(other) {
		t.Error("two acquisitions share an identity")
	}
}
