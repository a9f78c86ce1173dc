package fieldcases_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"

	"github.com/leasehold/leasehold/test/lab"
)

// xataio/pgstream#686 (report, 2026-01-20), jackc/pgx#289 (report, 2017-07-06),
// contribsys/faktory#395: numbers that were read from jsonb into untyped Go
// values became float64. 64-bit ids above 2^53 came back rounded and pointed at
// other records, and nothing failed.

// exact has numbers that no double holds, and two whose spelling may change and
// whose value may not.
const exact = `[9007199254740993,1499366092322157987,18446744073709551615,12345678901234567890123,` +
	`-9007199254740993,50000.0000000000000001,1e-7,0.1]`

// The way of every number: input, request, wire, answer, ledger, next request,
// wire, result; through an answer that was lost and a request that was sent
// again by the reconciler, and through a worker that was killed in between.
func TestNumbersKeepEveryDigitOnEveryHop(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t), lab.NewTool(t)
	// It can recognise a repeated request and cannot be asked: so it is sent again.
	w.AddTool("echo", f, tools.ClassIdempotencyKey, func(cfg map[string]any) { delete(cfg, "query") })
	arrived, killed := make(chan struct{}, 10), make(chan struct{})
	f.Change(func(f *lab.Tool) {
		f.Dedup = true
		f.Arrived = func(a *lab.Arrival) {
			if a.Step == "first" && a.N == 1 {
				arrived <- struct{}{}
				a.Wait(killed)
			}
		}
		f.Reply = func(a *lab.Arrival) json.RawMessage { return a.Body }
		f.Committed = func(a *lab.Arrival) {
			if a.Step == "first" && a.N == 1 {
				a.Drop()
			}
		}
	})
	input := fmt.Sprintf(`{"numbers":%[1]s,"steps":[
		{"id":"first","tool":"echo","request":{"top":9007199254740993,"list":%[1]s,"deep":{"er":[{"list":%[1]s}]},
			"input":{"$ref":"input#/numbers"}}},
		{"id":"second","tool":"echo","request":{"all":{"$ref":"steps.first"},"one":{"$ref":"steps.first#/list/3"},
			"top":{"$ref":"steps.first#/top"}}}]}`, exact)
	first := fmt.Sprintf(`{"top":9007199254740993,"list":%[1]s,"deep":{"er":[{"list":%[1]s}]},"input":%[1]s}`, exact)
	second := fmt.Sprintf(`{"all":%s,"one":12345678901234567890123,"top":9007199254740993}`, first)

	doomed := w.Start("worker", lab.Named("worker-1"))
	w.Start("dispatcher")
	w.Start("reconciler")
	run := w.Submit(store.NewTask{Input: json.RawMessage(input)})
	w.Until("the first request has arrived", func() bool { return len(arrived) > 0 })
	doomed.Kill()
	close(killed)
	w.Start("worker", lab.Named("worker-2"))
	w.UntilRun(run, protocol.RunSucceeded)

	one, two := lab.OpID(run, "first"), lab.OpID(run, "second")
	if f.Arrivals(one) != 2 || f.Effects(one) != 1 || f.Arrivals(two) != 1 {
		t.Errorf("first: %d arrivals, %d effects; second: %d arrivals", f.Arrivals(one), f.Effects(one), f.Arrivals(two))
	}
	if r := w.Run(run); r.Epoch != 2 {
		t.Errorf("the run ended in term %d", r.Epoch)
	}
	for _, a := range f.All() {
		equalNumbers(t, fmt.Sprintf("arrival %d of %s", a.N, a.Step), a.Body, map[string]string{"first": first, "second": second}[a.Step])
	}
	ledger := `SELECT %s::text FROM leasehold.tool_operations WHERE operation_id = $1`
	for _, column := range []string{"request_body", "result"} {
		equalNumbers(t, column+" of first", json.RawMessage(w.Text(fmt.Sprintf(ledger, column), string(one))), first)
		equalNumbers(t, column+" of second", json.RawMessage(w.Text(fmt.Sprintf(ledger, column), string(two))), second)
	}
	equalNumbers(t, "the run's result",
		json.RawMessage(w.Text(`SELECT result::text FROM leasehold.agent_runs WHERE run_id = $1`, run.String())),
		fmt.Sprintf(`{"steps":{"first":%s,"second":%s}}`, first, second))
	shown := w.Leasehold(w.AsOperator(), "run", "show", run.String(), "-o", "json")
	if !strings.Contains(shown.Out, "12345678901234567890123") || strings.Contains(shown.Out, "1.2345678901234568e") {
		t.Errorf("the operator is shown %s", shown.Out)
	}
}

// equalNumbers compares two JSON values, their numbers as fractions of integers.
func equalNumbers(t *testing.T, what string, got json.RawMessage, want string) {
	t.Helper()
	if g, w := rational(t, got), rational(t, json.RawMessage(want)); g != w {
		t.Errorf("%s is\n%s\nwant\n%s", what, g, w)
	}
}

// rational spells a JSON value with sorted names and every number as a fraction.
func rational(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return spell(t, v)
}

func spell(t *testing.T, v any) string {
	t.Helper()
	switch v := v.(type) {
	case json.Number:
		r, ok := new(big.Rat).SetString(v.String())
		if !ok {
			t.Fatalf("%s is no number", v)
		}
		return r.RatString()
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = spell(t, e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, name+": "+spell(t, v[name]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprintf("%#v", v)
}
