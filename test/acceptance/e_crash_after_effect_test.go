package acceptance_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/test/lab"
)

// classes are the promises that a tool can make; after a crash, what may happen
// depends on nothing else.
var classes = []tools.Class{
	tools.ClassIdempotencyKey, tools.ClassDeterministicID, tools.ClassOperationQuery, tools.ClassNone,
}

// crashScene is a dispatcher that is about to die, and one call of a tool of
// each class on its way through it.
type crashScene struct {
	w     *lab.World
	f     *lab.Tool
	net   *lab.Proxy // between the first dispatcher and the database
	first *lab.Process
	runs  map[tools.Class]protocol.RunID
}

func (s crashScene) op(c tools.Class) protocol.OperationID { return lab.OpID(s.runs[c], string(c)) }

// newCrashScene starts everything; the service recognises repeated keys, as the
// classes that have one promise. Effects are committed, and what follows is up
// to committed.
func newCrashScene(t *testing.T, committed func(*lab.Arrival)) crashScene {
	t.Helper()
	s := crashScene{w: newWorld(t), f: lab.NewTool(t), runs: map[tools.Class]protocol.RunID{}}
	s.net = lab.NewProxy(t, s.w.DB.DSN("dispatcher"))
	s.f.Change(func(f *lab.Tool) { f.Dedup, f.Committed = true, committed })
	for _, class := range classes {
		// Long enough for four effects to be there at once.
		s.w.AddTool(string(class), s.f, class, func(cfg map[string]any) {
			cfg["timeout"] = "1500ms"
			cfg["capabilities"].(map[string]any)["max_request"] = "1500ms"
		})
		s.runs[class] = s.w.Submit(store.NewTask{Input: lab.Plan(lab.Step{ID: string(class), Tool: string(class)})})
	}
	s.first = s.w.Start("dispatcher", lab.Named("dispatcher-1"), lab.Through(s.net.Through(s.w.DB.DSN("dispatcher"))),
		lab.Set("dispatcher.claim_ttl", "3s")).Ready()
	return s
}

// die kills the first dispatcher, and with it all that it has not got across.
func (s crashScene) die() {
	s.first.Kill()
	s.net.Reset(nil)
	s.net.Restore()
}

// recover starts a second dispatcher and a reconciler and waits until every
// operation is final or needs a person.
func (s crashScene) recover() {
	s.w.T.Helper()
	s.w.Start("dispatcher", lab.Named("dispatcher-2"))
	s.w.Start("reconciler")
	for _, class := range classes {
		s.w.Until(fmt.Sprintf("the operation of class %s is final or needs a person", class), func() bool {
			op := s.w.Op(s.op(class))
			return op.Status == "succeeded" || op.Status == "failed_final" || op.Attention != ""
		})
	}
}

// judge compares both ledgers. undecidable says that the class "none" has a
// doubt that nobody can end.
func (s crashScene) judge(t *testing.T, e *evidence, undecidable bool) {
	t.Helper()
	for _, class := range classes {
		op, id := s.w.Op(s.op(class)), s.op(class)
		arrivals, effects := s.f.Arrivals(id), s.f.Effects(id)
		if effects != 1 {
			t.Errorf("%s: %d effects", class, effects)
		}
		if class == tools.ClassNone && undecidable {
			if op.Status != "unknown" || op.Attention == "" || arrivals != 1 {
				t.Errorf("%s: %+v, %d arrivals", class, op, arrivals)
			}
		} else if op.Status != "succeeded" || op.RemoteID != "r-"+string(id) {
			t.Errorf("%s: %+v", class, op)
		} else {
			s.w.UntilRun(s.runs[class], protocol.RunSucceeded)
		}
		if (class == tools.ClassOperationQuery || class == tools.ClassNone) && arrivals != 1 {
			t.Errorf("%s: sent %d times", class, arrivals)
		}
		e.observe(string(class), fmt.Sprintf("%s by %s, %d effect(s) of %d arrival(s)", op.Status, or(op.ResolvedBy, "nobody"), effects, arrivals))
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// Experiment E. Claim: a dispatcher that dies between the remote's success and
// the local record of it causes no second effect. Where the tool takes a key or
// can be asked, the operation ends as succeeded with exactly one effect; where
// it can do neither, it stays unknown, for a person, and is never sent again.
func TestEADispatcherKilledBeforeTheAnswerCausesNoSecondEffect(t *testing.T) {
	t.Parallel()
	e := experiment(t, "E", "SIGKILL of the dispatcher after the effect, before the answer",
		"one effect each; class none stays unknown, sent once")
	died := make(chan struct{})
	s := newCrashScene(t, func(a *lab.Arrival) {
		if a.Client == "dispatcher-1" {
			a.Wait(died)
			a.Drop()
		}
	})
	s.w.Start("worker")
	s.untilEffects()
	s.die()
	close(died)
	s.recover()
	s.never(t)
	s.judge(t, e, true)
}

// untilEffects waits until every class has its effect at the remote.
func (s crashScene) untilEffects() {
	s.w.T.Helper()
	s.w.Until("every effect is there", func() bool {
		for _, class := range classes {
			if s.f.Effects(s.op(class)) != 1 {
				return false
			}
		}
		return true
	})
}

// never gives the system the time to do what it must not: another call of the
// tool without promises goes through all of it meanwhile, and the doubts are
// taken up again and again.
func (s crashScene) never(t *testing.T) {
	t.Helper()
	rounds := func() int64 {
		return s.w.Number(`SELECT count(*) FROM leasehold.operation_journal`)
	}
	before := rounds()
	after := s.w.Submit(store.NewTask{Input: lab.Chain(string(tools.ClassNone), 5)})
	s.w.UntilRun(after, protocol.RunSucceeded)
	if rounds() <= before {
		t.Error("nothing happened meanwhile")
	}
}

func TestEADispatcherKilledWithTheAnswerInItsHandsCausesNoSecondEffect(t *testing.T) {
	t.Parallel()
	e := experiment(t, "E", "SIGKILL of the dispatcher after the answer, before its record",
		"one effect each; class none stays unknown, sent once")
	answered := make(chan struct{})
	s := newCrashScene(t, func(a *lab.Arrival) {
		if a.Client == "dispatcher-1" {
			a.Wait(answered)
		}
	})
	s.w.Start("worker")
	s.untilEffects()
	s.net.BlackHole()
	close(answered)
	s.w.Until("the dispatcher has tried to record an answer", func() bool { return s.net.Held() > 0 })
	s.die()
	s.recover()
	s.never(t)
	s.judge(t, e, true)
}

// Only the call of the tool without promises is answered: nobody could find out
// about it later, so its record alone must end the matter.
func TestEADispatcherKilledBeforeItLearnsOfItsRecordChangesNothing(t *testing.T) {
	t.Parallel()
	e := experiment(t, "E", "SIGKILL of the dispatcher after its record of class none was committed, before it was told",
		"one effect each, all succeeded; class none by the response, sent once")
	answered, died := make(chan struct{}), make(chan struct{})
	s := newCrashScene(t, func(a *lab.Arrival) {
		switch {
		case a.Client != "dispatcher-1":
		case strings.HasSuffix(string(a.Op), "/none/1"):
			a.Wait(answered)
		default:
			a.Wait(died)
			a.Drop()
		}
	})
	// Its record stands inside its transaction while the way back is closed.
	open := barrier(s.w, "operation_journal", "new.kind = 'result'")
	s.w.Start("worker")
	s.untilEffects()
	close(answered)
	s.w.Until("the answer is being recorded", func() bool {
		return s.w.Number(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event = 'advisory'`) > 0
	})
	s.net.Mute()
	open()
	s.w.UntilOp(s.op(tools.ClassNone), protocol.OperationSucceeded)
	s.die()
	close(died)
	s.recover()
	s.never(t)
	s.judge(t, e, false)
	if by := s.w.Op(s.op(tools.ClassNone)).ResolvedBy; by != "response" {
		t.Errorf("class none was resolved by %s", by)
	}
}
