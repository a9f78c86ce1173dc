package toolstest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/toolstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// promises are the ways in which a tool may declare itself, each kept by a
// remote of the kind beside it.
func promises() []struct {
	name    string
	caps    tools.Capabilities
	dialect toolstest.Dialect
} {
	day := int64(86_400_000)
	return []struct {
		name    string
		caps    tools.Capabilities
		dialect toolstest.Dialect
	}{
		{"key", tools.Capabilities{Class: tools.ClassIdempotencyKey, RetentionMS: day}, toolstest.Dialect{Retention: 24 * hour}},
		{
			"key, asked",
			tools.Capabilities{Class: tools.ClassIdempotencyKey, RetentionMS: day, Query: true, SettleMS: 5000},
			toolstest.Dialect{Retention: 24 * hour},
		},
		{
			"key, compared",
			tools.Capabilities{Class: tools.ClassIdempotencyKey, RetentionMS: day, RejectsMismatch: true},
			toolstest.Dialect{Retention: 24 * hour, Compares: true},
		},
		{"key, retention unknown", tools.Capabilities{Class: tools.ClassIdempotencyKey}, toolstest.Dialect{Retention: 1}},
		{"name", tools.Capabilities{Class: tools.ClassDeterministicID, Query: true}, toolstest.Dialect{Recognises: toolstest.ByName}},
		{
			"query",
			tools.Capabilities{Class: tools.ClassOperationQuery, Query: true, SettleMS: 6000},
			toolstest.Dialect{Recognises: toolstest.NotAtAll},
		},
		{
			"query, absence is proof",
			tools.Capabilities{Class: tools.ClassOperationQuery, Query: true, AbsenceIsProof: true},
			toolstest.Dialect{Recognises: toolstest.NotAtAll},
		},
		{"none", tools.Capabilities{Class: tools.ClassNone}, toolstest.Dialect{Recognises: toolstest.NotAtAll}},
		{"read only", tools.Capabilities{Class: tools.ClassNone, ReadOnly: true}, toolstest.Dialect{Recognises: toolstest.NotAtAll}},
	}
}

func TestAnHonestAdapterPassesUnderEveryPromise(t *testing.T) {
	t.Parallel()
	for _, p := range promises() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			m := toolstest.Run(t, suite(p.caps, p.dialect, nil))
			applied := 0
			for _, row := range m {
				if row.Applies {
					applied++
				}
			}
			if applied < 10 {
				t.Errorf("only %d scenarios applied", applied)
			}
		})
	}
}
