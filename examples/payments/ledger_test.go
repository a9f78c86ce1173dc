package main

import (
	"fmt"
	"net/http"
	"os"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func TestLedgerSurvivesKill9(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	p := start(t, path)
	first := p.charge("order-1", `{"amount": 1200}`)
	want(t, first, http.StatusCreated)
	want(t, p.do(http.MethodPost, "/notifications", `{"to": "Ada"}`), http.StatusCreated)
	p.arm(`{"endpoint": "charges", "fault": "hold_answer"}`)
	held := make(chan answer, 1)
	go func() { held <- p.charge("order-2", `{"amount": 50}`) }()
	p.waitFor("the second charge is committed", func() bool { return p.count(KindEffect, "charges") == 2 })
	before := p.ledger("")
	p.kill()
	if a := <-held; a.err == nil {
		t.Fatalf("a killed service answered %v", a)
	}

	p = start(t, path)
	if after := p.ledger(""); !reflect.DeepEqual(before, after) {
		t.Errorf("ledger was %+v, is %+v", before, after)
	}
	again := p.charge("order-1", `{"amount": 1200}`)
	want(t, again, http.StatusCreated)
	if !reflect.DeepEqual(first.body, again.body) {
		t.Errorf("answered %v, after the restart %v", first.body, again.body)
	}
	want(t, p.charge("order-2", `{"amount": 51}`), http.StatusUnprocessableEntity)
	third := p.charge("order-3", `{"amount": 1}`)
	want(t, third, http.StatusCreated)
	if got := third.body["id"]; got != "ch_3" {
		t.Errorf("the third charge is %v, want ch_3", got)
	}
}

func TestRequestInProgressAtAKill9HadNoEffect(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	p := start(t, path)
	p.arm(`{"endpoint": "charges", "fault": "delay", "millis": 60000}`)
	slow := make(chan answer, 1)
	go func() { slow <- p.charge("order-1", `{"amount": 7}`) }()
	p.waitFor("the charge is in progress", func() bool {
		return p.do(http.MethodGet, "/charges?key=order-1", "").status == http.StatusAccepted
	})
	p.kill()
	<-slow

	p = start(t, path)
	want(t, p.do(http.MethodGet, "/charges?key=order-1", ""), http.StatusNotFound)
	want(t, p.charge("order-1", `{"amount": 7}`), http.StatusCreated)
	if a, e := p.count(KindArrival, "charges"), p.count(KindEffect, "charges"); a != 2 || e != 1 {
		t.Errorf("%d arrivals and %d effects, want 2 and 1", a, e)
	}
}

func TestLastLineThatACrashCutOffIsRemoved(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	p := start(t, path)
	want(t, p.charge("order-1", `{"amount": 1200}`), http.StatusCreated)
	p.kill()
	appendTo(t, path, `{"seq":3,"at":"2026-01-01T00:00:00Z","kind":"effect","endpoint":"charges","key":"order-2"`)

	p = start(t, path)
	want(t, p.do(http.MethodGet, "/charges?key=order-2", ""), http.StatusNotFound)
	want(t, p.charge("order-2", `{"amount": 5}`), http.StatusCreated)
	p.kill()
	p = start(t, path)
	if got := len(p.ledger("")); got != 4 {
		t.Errorf("%d lines, want 4", got)
	}
}

func TestDamageInTheMiddleIsNotPassedOver(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, damage, names string }{
		{"torn line", `{"seq":2,"ki` + "\n", "line 2"},
		{"missing line", `{"seq":3,"kind":"arrival"}` + "\n", "sequence 3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := ledgerPath(t)
			appendTo(t, path, `{"seq":1,"kind":"arrival"}`+"\n"+tt.damage+`{"seq":4,"kind":"arrival"}`+"\n")
			l, err := OpenLedger(path)
			if err == nil {
				l.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.names) {
				t.Errorf("error is %v, want one that names %s", err, tt.names)
			}
		})
	}
}

func TestSecondProcessIsRefusedTheLedger(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	start(t, path)
	l, err := OpenLedger(path)
	if err == nil {
		l.Close()
		t.Fatal("two processes have one ledger")
	}
	if !strings.Contains(err.Error(), "another process") {
		t.Errorf("error is %v", err)
	}
}

func TestConcurrentAppendsAreNumberedWithoutGapsAndAllKept(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	l, err := OpenLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 16, 20
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if _, err := l.Append(Entry{Kind: KindArrival, Key: fmt.Sprint(w, "-", i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	before := l.Entries(0)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = OpenLedger(path); err != nil { // checks the numbering
		t.Fatal(err)
	}
	defer l.Close()
	if got := l.Entries(0); len(got) != writers*each || !reflect.DeepEqual(got, before) {
		t.Errorf("%d lines read back, %d appended", len(got), writers*each)
	}
}

func TestAppendAfterAFailedWriteFails(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	l, err := OpenLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	readOnly, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()

	healthy := l.file
	l.file = readOnly
	if _, err := l.Append(Entry{Kind: KindArrival}); err == nil {
		t.Fatal("an entry that is on no disk was acknowledged")
	}
	l.file = healthy // too late: half a line may stand at the end
	if _, err := l.Append(Entry{Kind: KindArrival}); err == nil {
		t.Fatal("an entry was written after what may be half a line")
	}
	if got := l.Entries(0); len(got) != 0 {
		t.Errorf("ledger shows %v, which is on no disk", got)
	}
}

func TestServiceStopsInOrderOnSIGTERM(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	p := start(t, path)
	p.arm(`{"endpoint": "charges", "fault": "hold_answer"}`)
	held := make(chan answer, 1)
	go func() { held <- p.charge("order-1", `{"amount": 50}`) }()
	p.waitFor("the charge is committed", func() bool { return p.count(KindEffect, "charges") == 1 })
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	want(t, <-held, http.StatusCreated) // a held answer is let go, not cut off
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("exit: %v", err)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}
