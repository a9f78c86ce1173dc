package store_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

func TestWhatJsonbCannotHoldComesBackAsItWas(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, in := range map[string]string{
		"NUL in a word":          `"a\u0000b"`,
		"a lone high surrogate":  `"\ud800"`,
		"a lone low surrogate":   `["\udc00x"]`,
		"literal backslash text": `"\\u0000"`,
		"a name with NUL":        `{"k\u0000":1}`,
		"the escape itself":      `"\u001a0000"`,
		"big integers":           `[9007199254740993,1499366092322157987,18446744073709551615,12345678901234567890123,-9007199254740993]`,
		"long decimals":          `[50000.0000000000000001,1e-7,0.1]`,
		"an exponent too far":    `1e999999`,
		"emoji":                  `"` + strings.Repeat("😀", 2000) + `"`,
	} {
		t.Run(name, func(t *testing.T) {
			stored, _, err := protocol.ToStorable([]byte(in))
			if err != nil {
				t.Fatal(err)
			}
			h := b.running()
			h.must(store.WriteStep, func(w *store.Write) { w.StepID = "s"; w.Payload = stored })
			st, err := b.worker.ReadRun(b.ctx, h.lease)
			if err != nil {
				t.Fatal(err)
			}
			back, err := protocol.FromStorable(st.Journal[1].Payload)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := compact(t, back), compact(t, []byte(in)); got != want {
				// jsonb spells 1e-7 as 0.0000001; only the value counts.
				if a, errA := protocol.Canonical(back); errA == nil {
					if c, errC := protocol.Canonical([]byte(in)); errC == nil && string(a) == string(c) {
						return
					}
				}
				t.Fatalf("came back as %.200s, was %.200s", got, want)
			}
		})
	}
}

func compact(t *testing.T, raw []byte) string {
	t.Helper()
	var out strings.Builder
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	for {
		tok, err := dec.Token()
		if err != nil {
			return out.String()
		}
		text, err := json.Marshal(tok)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
		out.WriteByte(' ')
	}
}
