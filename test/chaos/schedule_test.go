package main

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"
)

func TestASeedDrawsTheSameStormEachTimeAndAnotherSeedAnother(t *testing.T) {
	t.Parallel()
	a, b, c := schedule(7, time.Minute), schedule(7, time.Minute), schedule(8, time.Minute)
	if !reflect.DeepEqual(a, b) {
		t.Error("the same seed drew two storms")
	}
	if reflect.DeepEqual(a, c) {
		t.Error("two seeds drew one storm")
	}
}

func TestAStormHasEveryKindAboutAsOftenAsItsPaceSaysAndEndsInTime(t *testing.T) {
	t.Parallel()
	for _, duration := range []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute} {
		list := schedule(3, duration)
		if !slices.IsSortedFunc(list, func(a, b event) int { return int(a.at - b.at) }) {
			t.Errorf("%s: not in order", duration)
		}
		seen := map[kind]int{}
		for _, e := range list {
			seen[e.kind]++
			if e.at < 0 || e.lasts < 0 || e.at+e.lasts > duration {
				t.Errorf("%s: goes beyond the end: %s", duration, e)
			}
		}
		for _, p := range paces {
			if want := max(1, int(duration/p.every)); seen[p.kind] != want {
				t.Errorf("%s: %s comes %d times, want %d", duration, p.kind, seen[p.kind], want)
			}
		}
	}
}

func TestAnEventSaysAllThatItIs(t *testing.T) {
	t.Parallel()
	e := event{at: 1500 * time.Millisecond, lasts: time.Second, kind: freezeWorker, whom: 3, much: 0.25}
	if got, want := fmt.Sprint(e), "   1.50s SIGSTOP worker             for  1.00s (3, 0.25)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
