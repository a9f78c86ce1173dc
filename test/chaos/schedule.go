package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// kind is a kind of fault of the schedule. What happens inside the remote is
// armed beside it, see storm.arm.
type kind string

// The kinds.
const (
	killWorker       kind = "SIGKILL worker"
	killDispatcher   kind = "SIGKILL dispatcher"
	killReconciler   kind = "SIGKILL reconciler"
	freezeWorker     kind = "SIGSTOP worker"
	freezeDispatcher kind = "SIGSTOP dispatcher"
	freezeReconciler kind = "SIGSTOP reconciler"
	freezeClaiming   kind = "SIGSTOP between claim and send"
	drainProcess     kind = "SIGTERM process"
	crashDatabase    kind = "database crash"
	endBackends      kind = "backends terminated"
	delayDatabase    kind = "database path delayed"
	resetDatabase    kind = "database path reset"
	silenceDatabase  kind = "database path black hole"
	muteDatabase     kind = "database path mute"
	cutReply         kind = "reply cut after its commit"
	delayTool        kind = "tool path delayed"
	resetTool        kind = "tool path reset"
	silenceTool      kind = "tool path black hole"
	cutTool          kind = "tool's answer cut"
	stepProcess      kind = "process clock stepped"
	stepDatabase     kind = "database clock stepped"
	exhaustPool      kind = "connections used up"
	holdSnapshot     kind = "snapshot held"
	armRemote        kind = "remote misbehaves"
)

// pace is how often a kind comes, and how long it lasts.
type pace struct {
	kind     kind
	every    time.Duration
	from, to time.Duration // of its length; zero for what is over at once
}

// paces is the storm. A freeze lasts from a quarter of a lease to five.
var paces = []pace{
	{killWorker, 6 * time.Second, 0, time.Second},
	{killDispatcher, 6 * time.Second, 0, time.Second},
	{killReconciler, 12 * time.Second, 0, time.Second},
	{freezeWorker, 5 * time.Second, leaseTTL / 4, 5 * leaseTTL},
	{freezeDispatcher, 6 * time.Second, leaseTTL / 4, 5 * leaseTTL},
	{freezeReconciler, 12 * time.Second, leaseTTL / 4, 3 * leaseTTL},
	{freezeClaiming, 10 * time.Second, leaseTTL / 4, 3 * leaseTTL},
	{drainProcess, 15 * time.Second, 0, time.Second},
	{crashDatabase, 20 * time.Second, 0, 0},
	{endBackends, 4 * time.Second, 0, 0},
	{delayDatabase, 10 * time.Second, time.Second, 3 * time.Second},
	{resetDatabase, 6 * time.Second, 0, 0},
	{silenceDatabase, 10 * time.Second, leaseTTL / 4, 3 * leaseTTL},
	{muteDatabase, 10 * time.Second, leaseTTL / 4, 2 * leaseTTL},
	{cutReply, time.Second, 0, 0},
	{delayTool, 10 * time.Second, time.Second, 3 * time.Second},
	{resetTool, 5 * time.Second, 0, 0},
	{silenceTool, 10 * time.Second, leaseTTL / 4, 2 * leaseTTL},
	{cutTool, 3 * time.Second, 0, 0},
	{stepProcess, 15 * time.Second, 2 * time.Second, 10 * time.Second},
	{stepDatabase, 20 * time.Second, 2 * time.Second, 6 * time.Second},
	{exhaustPool, 20 * time.Second, time.Second, 2 * time.Second},
	{holdSnapshot, 20 * time.Second, 5 * time.Second, 15 * time.Second},
	{armRemote, 400 * time.Millisecond, 0, 0},
}

// event is one fault: when it begins, how long it lasts, and two numbers that
// say on whom and how much.
type event struct {
	at    time.Duration
	lasts time.Duration
	kind  kind
	whom  uint32
	much  float64 // from 0 to 1
}

func (e event) String() string {
	return fmt.Sprintf("%7.2fs %-26s for %5.2fs (%d, %.2f)", e.at.Seconds(), e.kind, e.lasts.Seconds(), e.whom, e.much)
}

// schedule draws the storm for a duration. Every kind comes at least once, and
// about as often as its pace says; nothing lasts beyond the end.
func schedule(seed uint64, duration time.Duration) []event {
	var list []event
	for i, p := range paces {
		// A source for each kind: another pace for one changes no other.
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		n := max(1, int(duration/p.every))
		slot := duration / time.Duration(n)
		for j := range n {
			at := time.Duration(j)*slot + time.Duration(rng.Float64()*float64(slot))
			lasts := p.from + time.Duration(rng.Float64()*float64(p.to-p.from))
			list = append(list, event{
				at: at, lasts: min(lasts, duration-at), kind: p.kind, whom: rng.Uint32(), much: rng.Float64(),
			})
		}
	}
	slices.SortStableFunc(list, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return list
}
