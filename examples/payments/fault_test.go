package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestHeldAnswerIsHeldAfterTheCommit(t *testing.T) {
	t.Parallel()
	p := start(t, ledgerPath(t))
	p.arm(`{"endpoint": "charges", "fault": "hold_answer", "where": {"order": "b"}}`)

	want(t, p.charge("a", `{"amount": 1, "order": "a"}`), http.StatusCreated)
	held := make(chan answer, 1)
	go func() { held <- p.charge("b", `{"amount": 1, "order": "b"}`) }()
	p.waitFor("the held charge is committed", func() bool { return p.count(KindEffect, "charges") == 2 })
	select {
	case a := <-held:
		t.Fatalf("answered %v although the answer is held", a)
	default:
	}
	// The answer is held, the fact is not.
	want(t, p.do(http.MethodGet, "/charges?key=b", ""), http.StatusOK)
	want(t, p.charge("b", `{"amount": 1, "order": "b"}`), http.StatusCreated)

	want(t, p.do(http.MethodDelete, "/faults", ""), http.StatusOK)
	want(t, <-held, http.StatusCreated)
}

func TestDroppedAnswerIsNoAnswerButAnEffect(t *testing.T) {
	t.Parallel()
	p := start(t, ledgerPath(t))
	p.arm(`{"endpoint": "notifications", "fault": "drop_answer"}`)

	if a := p.do(http.MethodPost, "/notifications", `{"to": "Ada"}`); a.err == nil {
		t.Fatalf("answered %v, want no answer", a)
	}
	if got := p.count(KindEffect, "notifications"); got != 1 {
		t.Errorf("%d effects, want 1", got)
	}
	want(t, p.do(http.MethodPost, "/notifications", `{"to": "Bob"}`), http.StatusCreated)
}

func TestDelayedEffectHappensAlthoughTheCallerHungUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := OpenLedger(ledgerPath(t))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		service := NewService(l, slog.New(slog.DiscardHandler))
		if err := service.faults.arm(Fault{Endpoint: "charges", Fault: FaultDelay, Millis: 3000}); err != nil {
			t.Fatal(err)
		}
		gone, hangUp := context.WithCancel(t.Context())
		hangUp()
		req := httptest.NewRequestWithContext(gone, http.MethodPost, "/charges", strings.NewReader(`{"amount": 3}`))
		req.Header.Set("Idempotency-Key", "late")
		service.Handler().ServeHTTP(httptest.NewRecorder(), req)

		entries := l.Entries(0)
		if len(entries) != 2 || entries[1].Kind != KindEffect {
			t.Fatalf("ledger is %+v, want an arrival and its effect", entries)
		}
		if took := entries[1].At.Sub(entries[0].At); took != 3*time.Second {
			t.Errorf("the effect came %s after the arrival, want the whole delay", took)
		}
	})
}

func TestFaultIsNotUsedUpByAReplay(t *testing.T) {
	t.Parallel()
	p := start(t, ledgerPath(t))
	want(t, p.charge("a", `{"amount": 1}`), http.StatusCreated)
	p.arm(`{"endpoint": "charges", "fault": "drop_answer"}`)
	want(t, p.charge("a", `{"amount": 1}`), http.StatusCreated)
	if a := p.charge("b", `{"amount": 1}`); a.err == nil {
		t.Fatalf("answered %v, want no answer", a)
	}
}

func TestFaultStrikesAsOftenAsItSays(t *testing.T) {
	t.Parallel()
	p := start(t, ledgerPath(t))
	p.arm(`{"endpoint": "notifications", "fault": "drop_answer", "times": 2}`)
	for range 2 {
		if a := p.do(http.MethodPost, "/notifications", `{"to": "Ada"}`); a.err == nil {
			t.Fatalf("answered %v, want no answer", a)
		}
	}
	want(t, p.do(http.MethodPost, "/notifications", `{"to": "Ada"}`), http.StatusCreated)
}

func TestSenselessFaultsAreRefused(t *testing.T) {
	t.Parallel()
	p := start(t, ledgerPath(t))
	tests := []struct{ name, fault string }{
		{"unknown endpoint", `{"endpoint": "refunds", "fault": "drop_answer"}`},
		{"unknown fault", `{"endpoint": "charges", "fault": "explode"}`},
		{"unknown field", `{"endpoint": "charges", "fault": "drop_answer", "run": "x"}`},
		{"delay without a length", `{"endpoint": "charges", "fault": "delay"}`},
		{"negative count", `{"endpoint": "charges", "fault": "drop_answer", "times": -1}`},
		{"negative length", `{"endpoint": "charges", "fault": "hold_answer", "millis": -1}`},
		{"not JSON", `boom`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want(t, p.do(http.MethodPost, "/faults", tt.fault), http.StatusBadRequest)
		})
	}
}
