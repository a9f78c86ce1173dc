package load_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
)

// payments is the service's address, for its own ledger.
type payments struct{ url string }

// entry is what is compared of a line of that ledger.
type entry struct {
	Kind        string `json:"kind"`
	OperationID string `json:"operation_id"`
	RunID       string `json:"run_id"`
	EffectID    string `json:"effect_id"`
}

func (s *stage) startPayments(dir string) payments {
	s.t.Helper()
	p := s.StartOther("payments", "-addr", "127.0.0.1:0", "-ledger", filepath.Join(dir, "payments.jsonl"))
	var url string
	s.Until("the payments service has said where it listens", func() bool {
		for _, line := range p.Log() {
			if at, found := strings.CutPrefix(line, "listening on "); found {
				url = at
			}
		}
		return url != ""
	})
	return payments{url}
}

func (s *stage) paymentsLedger() []entry {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.payments.url+"/ledger", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var body struct{ Entries []entry }
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		s.t.Fatal(err)
	}
	return body.Entries
}

// compare holds the two ledgers against each other: every operation is
// succeeded and has exactly one effect, whose id it knows, and there is no
// effect without an operation. It returns the number of requests that arrived.
func (s *stage) compare() (operations, arrivals int) {
	s.t.Helper()
	type operation struct{ id, run, status, remote string }
	rows, err := s.Probe.Query(s.t.Context(),
		`SELECT operation_id, run_id::text, status, coalesce(remote_id, '') FROM leasehold.tool_operations`)
	if err != nil {
		s.t.Fatal(err)
	}
	known := map[string]operation{}
	for rows.Next() {
		var o operation
		if err := rows.Scan(&o.id, &o.run, &o.status, &o.remote); err != nil {
			s.t.Fatal(err)
		}
		known[o.id] = o
	}
	if rows.Err() != nil {
		s.t.Fatal(rows.Err())
	}
	effects := map[string][]entry{}
	for _, e := range s.paymentsLedger() {
		if e.Kind != "effect" {
			arrivals++
			continue
		}
		effects[e.OperationID] = append(effects[e.OperationID], e)
	}
	var wrong []string
	for id, o := range known {
		if n := len(effects[id]); o.status != "succeeded" || n != 1 {
			wrong = append(wrong, fmt.Sprintf("%s is %s and has %d effects", id, o.status, n))
		} else if e := effects[id][0]; e.EffectID != o.remote || e.RunID != o.run {
			wrong = append(wrong, fmt.Sprintf("%s of %s is %s of %s at the service", o.remote, o.run, e.EffectID, e.RunID))
		}
	}
	for id := range effects {
		if _, ok := known[id]; !ok {
			wrong = append(wrong, fmt.Sprintf("the effect of %q is of no operation", id))
		}
	}
	for _, w := range wrong[:min(len(wrong), 10)] {
		s.t.Error(w)
	}
	if len(wrong) > 0 {
		s.t.Errorf("%d differences between the ledgers", len(wrong))
	}
	return len(known), arrivals
}
