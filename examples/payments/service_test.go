package main

import (
	"net/http"
	"net/url"
	"reflect"
	"testing"
)

func TestSameKeyAndSameBodyIsChargedOnceAndAnsweredAlike(t *testing.T) {
	t.Parallel()
	p := start(t, ledgerPath(t))

	first := p.charge("order-1", `{"amount": 1200, "currency": "eur"}`)
	want(t, first, http.StatusCreated)
	again := p.charge("order-1", `{"currency": "eur", "amount": 1200}`)
	want(t, again, http.StatusCreated)

	if !reflect.DeepEqual(first.body, again.body) {
		t.Errorf("answered %v, then %v", first.body, again.body)
	}
	if first.header.Get("Idempotent-Replayed") != "" || again.header.Get("Idempotent-Replayed") != "true" {
		t.Error("only the second answer should be marked as replayed")
	}
	if got := p.count(KindEffect, "charges"); got != 1 {
		t.Errorf("%d effects, want 1", got)
	}
	if got := p.count(KindArrival, "charges"); got != 2 {
		t.Errorf("%d arrivals, want 2", got)
	}
}

func TestSameKeyWithAnotherBodyIsRefused(t *testing.T) {
	t.Parallel()
	p := start(t, ledgerPath(t))

	want(t, p.charge("order-1", `{"amount": 1200}`), http.StatusCreated)
	want(t, p.charge("order-1", `{"amount": 1201}`), http.StatusUnprocessableEntity)
	if got := p.count(KindEffect, "charges"); got != 1 {
		t.Errorf("%d effects, want 1", got)
	}
}

func TestRefusedRequestsHaveNoEffectButAreArrivals(t *testing.T) {
	t.Parallel()
	p := start(t, ledgerPath(t))

	want(t, p.charge("a", `{"amount": 0}`), http.StatusBadRequest)
	want(t, p.charge("b", `{"amount": 5, "card": "tok_declined"}`), http.StatusPaymentRequired)
	want(t, p.charge("", `{"amount": 5}`), http.StatusBadRequest)
	want(t, p.charge("c", `{"amount": 5} {}`), http.StatusBadRequest)
	want(t, p.charge("d", `nonsense`), http.StatusBadRequest)
	want(t, p.do(http.MethodPost, "/shipments", `{"to": "Ada"}`), http.StatusBadRequest)

	if got := p.count(KindEffect, "charges") + p.count(KindEffect, "shipments"); got != 0 {
		t.Errorf("%d effects, want none", got)
	}
	if got := p.count(KindArrival, "charges"); got != 5 {
		t.Errorf("%d arrivals, want 5", got)
	}
}

func TestKeyInProgressIsRefusedAndSaidSoInAQuery(t *testing.T) {
	t.Parallel()
	p := start(t, ledgerPath(t))
	p.arm(`{"endpoint": "charges", "fault": "delay", "millis": 60000}`)

	slow := make(chan answer, 1)
	go func() { slow <- p.charge("order-1", `{"amount": 7}`) }()
	p.waitFor("the slow charge arrives", func() bool { return p.count(KindArrival, "charges") == 1 })
	p.waitFor("the key is in progress", func() bool {
		return p.do(http.MethodGet, "/charges?key=order-1", "").status == http.StatusAccepted
	})
	want(t, p.charge("order-1", `{"amount": 7}`), http.StatusConflict)
	want(t, p.charge("order-1", `{"amount": 8}`), http.StatusUnprocessableEntity)

	want(t, p.do(http.MethodDelete, "/faults", ""), http.StatusOK)
	want(t, <-slow, http.StatusCreated)
	want(t, p.charge("order-1", `{"amount": 7}`), http.StatusCreated)
	if got := p.count(KindEffect, "charges"); got != 1 {
		t.Errorf("%d effects, want 1", got)
	}
}

func TestQueryFindsWhatExistsAndOnlyThat(t *testing.T) {
	t.Parallel()
	p := start(t, ledgerPath(t))
	key := "default/0190f6de/charge/1"
	want(t, p.charge(key, `{"amount": 9}`), http.StatusCreated)
	want(t, p.do(http.MethodPost, "/shipments", `{"id": "parcel-1"}`), http.StatusCreated)
	want(t, p.do(http.MethodPost, "/notifications", `{"to": "Ada"}`), http.StatusCreated)

	tests := []struct {
		name, path string
		status     int
	}{
		{"charge by query", "/charges?key=" + url.QueryEscape(key), http.StatusOK},
		{"charge by escaped path", "/charges/by-key/" + url.PathEscape(key), http.StatusOK},
		{"charge by plain path", "/charges/by-key/" + key, http.StatusOK},
		{"another charge", "/charges?key=other", http.StatusNotFound},
		{"no key at all", "/charges", http.StatusNotFound},
		{"shipment", "/shipments?key=parcel-1", http.StatusOK},
		{"a shipment's key is not a charge's", "/charges?key=parcel-1", http.StatusNotFound},
		{"notifications cannot be asked for", "/notifications/by-key/x", http.StatusNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, err := p.client.Get(p.url + tt.path)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != tt.status {
				t.Errorf("GET %s: %d, want %d", tt.path, resp.StatusCode, tt.status)
			}
		})
	}
}

func TestEachShipmentIDIsShippedOnce(t *testing.T) {
	t.Parallel()
	p := start(t, ledgerPath(t))
	for range 3 {
		want(t, p.do(http.MethodPost, "/shipments", `{"id": "parcel-1", "to": "Ada"}`), http.StatusCreated)
	}
	want(t, p.do(http.MethodPost, "/shipments", `{"id": "parcel-2", "to": "Ada"}`), http.StatusCreated)
	want(t, p.do(http.MethodPost, "/shipments", `{"id": "parcel-1", "to": "Bob"}`), http.StatusUnprocessableEntity)
	if got := p.count(KindEffect, "shipments"); got != 2 {
		t.Errorf("%d effects, want 2", got)
	}
}

func TestEachNotificationThatArrivesIsAnEffect(t *testing.T) {
	t.Parallel()
	p := start(t, ledgerPath(t))
	for range 3 {
		want(t, p.do(http.MethodPost, "/notifications", `{"to": "Ada"}`, "X-Operation-Id", "op-1", "Idempotency-Key", "op-1"),
			http.StatusCreated)
	}
	if got := p.count(KindEffect, "notifications"); got != 3 {
		t.Errorf("%d effects, want 3", got)
	}
}

func TestLedgerSaysWhoCalledForWhat(t *testing.T) {
	t.Parallel()
	p := start(t, ledgerPath(t))
	want(t, p.do(http.MethodPost, "/notifications", `{"to": "Ada"}`, "X-Operation-Id", "op-1", "X-Run-Id", "run-1",
		"X-Client", "dispatcher-2"), http.StatusCreated)

	entries := p.ledger("")
	if len(entries) != 2 || entries[0].Kind != KindArrival || entries[1].Kind != KindEffect {
		t.Fatalf("ledger is %+v, want an arrival and its effect", entries)
	}
	for _, e := range entries {
		if e.OperationID != "op-1" || e.RunID != "run-1" || e.Client != "dispatcher-2" ||
			e.Endpoint != "notifications" || e.At.IsZero() {
			t.Errorf("entry lacks its origin: %+v", e)
		}
	}
	if later := p.ledger("?after=1"); len(later) != 1 || later[0].Seq != 2 {
		t.Errorf("after line 1 there is %+v, want line 2", later)
	}
	if later := p.ledger("?after=7"); len(later) != 0 {
		t.Errorf("after the end there is %+v", later)
	}
}
