package tools_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/pkg/tools"
)

// The columns of the decision table: each class as it is usually declared.
const (
	keyQuery = iota // idempotency key, can be queried
	keyOnly         // idempotency key, no query
	nameID          // deterministic id
	byQuery         // operation query
	nothing         // none
	columns
)

func column(i int) tools.Capabilities {
	c := tools.Capabilities{MaxRequestMS: 30_000}
	switch i {
	case keyQuery:
		c.Class, c.Query, c.RetentionMS = tools.ClassIdempotencyKey, true, 86_400_000
	case keyOnly:
		c.Class, c.RetentionMS = tools.ClassIdempotencyKey, 86_400_000
	case nameID:
		c.Class, c.Query = tools.ClassDeterministicID, true
	case byQuery:
		c.Class, c.Query, c.SettleMS = tools.ClassOperationQuery, true, 6_000
	case nothing:
		c.Class = tools.ClassNone
	}
	return c
}

const (
	query   = tools.ActionQuery
	poll    = tools.ActionPoll
	resend  = tools.ActionResend
	wait    = tools.ActionWait
	person  = tools.ActionPerson
	succeed = tools.ActionConcludeSucceeded
	fail    = tools.ActionConcludeFailed
	never   = "" // this class cannot come to be in this situation
)

type situation struct {
	name  string
	facts func(*tools.Facts)
	caps  func(*tools.Capabilities)
	want  [columns]tools.Action
}

// situations holds every evidence that a doubt may come with. The base is a
// live run, one attempt long ago, well inside retention, not asked yet.
func situations() []situation {
	asked := func(k tools.Kind) func(*tools.Facts) { return func(f *tools.Facts) { f.Asked = k } }
	basis := func(k tools.Kind) func(*tools.Facts) { return func(f *tools.Facts) { f.Basis = k } }
	ended := func(more func(*tools.Facts)) func(*tools.Facts) {
		return func(f *tools.Facts) { more(f); f.RunLive = false }
	}
	early := func(more func(*tools.Facts)) func(*tools.Facts) {
		return func(f *tools.Facts) { more(f); f.ResendAfter = 20 * time.Second }
	}
	forgotten := func(more func(*tools.Facts)) func(*tools.Facts) {
		return func(f *tools.Facts) { more(f); f.RetentionLeft = 0 }
	}
	again := func(more func(*tools.Facts)) func(*tools.Facts) {
		return func(f *tools.Facts) { more(f); f.CoversAll = false }
	}
	proof := func(c *tools.Capabilities) { c.AbsenceIsProof = c.Query }
	complete := func(c *tools.Capabilities) { c.OnCancel = tools.OnCancelComplete }
	readOnly := func(c *tools.Capabilities) { c.ReadOnly = true }
	callsBack := func(c *tools.Capabilities) { c.CallsBack = true }

	return []situation{
		// What the sender heard.
		{"nothing was ever heard", basis(""), nil, [columns]tools.Action{query, resend, query, query, person}},
		{"no usable answer", basis(tools.Unknown), nil, [columns]tools.Action{query, resend, query, query, person}},
		{"no usable answer, a sender may be alive", early(basis(tools.Unknown)), nil, [columns]tools.Action{query, wait, query, query, person}},
		{"no usable answer, retention over", forgotten(basis(tools.Unknown)), nil, [columns]tools.Action{query, person, query, query, person}},
		{"no usable answer, run ended", ended(basis(tools.Unknown)), nil, [columns]tools.Action{query, person, query, query, person}},
		{"no usable answer, run ended, intent completes", ended(basis(tools.Unknown)), complete, [columns]tools.Action{query, resend, query, query, person}},
		{"no usable answer, no effect possible", basis(tools.Unknown), readOnly, [columns]tools.Action{resend, resend, resend, resend, resend}},
		{"no usable answer, no effect possible, run ended", ended(basis(tools.Unknown)), readOnly, [columns]tools.Action{fail, fail, fail, fail, fail}},

		{"proven not sent", basis(tools.NotSent), nil, [columns]tools.Action{resend, resend, resend, resend, resend}},
		{"proven not sent, too early to send again", early(basis(tools.NotSent)), nil, [columns]tools.Action{wait, wait, wait, wait, wait}},
		{"proven not sent, retention over", forgotten(basis(tools.NotSent)), nil, [columns]tools.Action{resend, resend, resend, resend, resend}},
		{"proven not sent, run ended", ended(basis(tools.NotSent)), nil, [columns]tools.Action{fail, fail, fail, fail, fail}},
		{"proven not sent, run ended, intent completes", ended(basis(tools.NotSent)), complete, [columns]tools.Action{resend, resend, resend, resend, resend}},
		{"second attempt not sent, first in doubt", again(basis(tools.NotSent)), nil, [columns]tools.Action{query, resend, query, query, person}},
		{"second attempt not sent, first in doubt, run ended", ended(again(basis(tools.NotSent))), nil, [columns]tools.Action{query, person, query, query, person}},

		{"remote says not executed", basis(tools.NotExecuted), nil, [columns]tools.Action{resend, resend, resend, resend, resend}},
		{
			"remote says not executed, its delay not over",
			func(f *tools.Facts) { f.Basis, f.RetryAfter = tools.NotExecuted, time.Minute }, nil,
			[columns]tools.Action{wait, wait, wait, wait, wait},
		},
		{"remote says not executed, run ended", ended(basis(tools.NotExecuted)), nil, [columns]tools.Action{fail, fail, fail, fail, fail}},
		{"second attempt not executed, first in doubt", again(basis(tools.NotExecuted)), nil, [columns]tools.Action{query, resend, query, query, person}},

		{"in progress", basis(tools.InProgress), nil, [columns]tools.Action{poll, resend, poll, poll, person}},
		{"in progress, a sender may be alive", early(basis(tools.InProgress)), nil, [columns]tools.Action{poll, wait, poll, poll, person}},
		{"in progress, retention over", forgotten(basis(tools.InProgress)), nil, [columns]tools.Action{poll, person, poll, poll, person}},
		{"in progress, run ended", ended(basis(tools.InProgress)), nil, [columns]tools.Action{poll, person, poll, poll, person}},
		{"in progress, tool calls back", basis(tools.InProgress), callsBack, [columns]tools.Action{poll, wait, poll, poll, wait}},
		{"in progress, tool calls back, run ended", ended(basis(tools.InProgress)), callsBack, [columns]tools.Action{poll, wait, poll, poll, wait}},

		{"key used for another intent", basis(tools.KeyConflict), nil, [columns]tools.Action{person, person, person, person, person}},
		{"confirmed too late", again(basis(tools.Succeeded)), nil, [columns]tools.Action{succeed, succeed, succeed, succeed, succeed}},
		{"refused too late", basis(tools.Rejected), nil, [columns]tools.Action{fail, fail, fail, fail, fail}},
		{"second attempt refused, first in doubt", again(basis(tools.Rejected)), nil, [columns]tools.Action{query, fail, query, query, person}},
		{"an earlier query found nothing", basis(tools.Absent), nil, [columns]tools.Action{query, resend, query, query, person}},

		// What a query has answered in this round.
		{"asked: it succeeded", asked(tools.Succeeded), nil, [columns]tools.Action{succeed, never, succeed, succeed, never}},
		{"asked: it was refused", asked(tools.Rejected), nil, [columns]tools.Action{fail, never, fail, fail, never}},
		{"asked: in progress", asked(tools.InProgress), nil, [columns]tools.Action{wait, never, wait, wait, never}},
		{"asked: it belongs to another", asked(tools.KeyConflict), nil, [columns]tools.Action{person, never, person, person, never}},
		{"asked: no answer", asked(tools.Unknown), nil, [columns]tools.Action{resend, never, wait, wait, never}},
		{"asked: no answer, a sender may be alive", early(asked(tools.Unknown)), nil, [columns]tools.Action{wait, never, wait, wait, never}},
		{"asked: no answer, retention over", forgotten(asked(tools.Unknown)), nil, [columns]tools.Action{wait, never, wait, wait, never}},
		{"asked: the question was not sent", asked(tools.NotSent), nil, [columns]tools.Action{resend, never, wait, wait, never}},
		{"asked: the question was throttled", asked(tools.NotExecuted), nil, [columns]tools.Action{resend, never, wait, wait, never}},
		{"asked: the question was throttled, run ended", ended(asked(tools.NotExecuted)), nil, [columns]tools.Action{wait, never, wait, wait, never}},

		{"asked: nothing found", asked(tools.Absent), nil, [columns]tools.Action{resend, never, resend, wait, never}},
		{
			"asked: nothing found, may not be visible yet",
			func(f *tools.Facts) { f.Asked, f.SettleLeft = tools.Absent, time.Second }, proof,
			[columns]tools.Action{wait, never, wait, wait, never},
		},
		{"asked: nothing found, a sender may be alive", early(asked(tools.Absent)), proof, [columns]tools.Action{wait, never, wait, wait, never}},
		{"asked: nothing found, absence is proof", asked(tools.Absent), proof, [columns]tools.Action{resend, never, resend, fail, never}},
		{"asked: nothing found, retention over", forgotten(asked(tools.Absent)), nil, [columns]tools.Action{wait, never, resend, wait, never}},
		{"asked: nothing found, retention over, absence is proof", forgotten(asked(tools.Absent)), proof, [columns]tools.Action{fail, never, resend, fail, never}},
		{"asked: nothing found, run ended", ended(asked(tools.Absent)), nil, [columns]tools.Action{wait, never, wait, wait, never}},
		{"asked: nothing found, run ended, absence is proof", ended(asked(tools.Absent)), proof, [columns]tools.Action{fail, never, fail, fail, never}},
		{
			"asked: nothing found, second attempt was refused",
			again(func(f *tools.Facts) { f.Basis, f.Asked = tools.Rejected, tools.Absent }), nil,
			[columns]tools.Action{fail, never, fail, wait, never},
		},
	}
}

func (s situation) start() tools.Facts {
	f := tools.Facts{Basis: tools.Unknown, CoversAll: true, RunLive: true, RetentionLeft: time.Hour}
	s.facts(&f)
	return f
}

func (s situation) capabilities(i int) tools.Capabilities {
	c := column(i)
	if s.caps != nil {
		s.caps(&c)
	}
	return c
}

func TestEveryClassHasANextStepForEveryEvidence(t *testing.T) {
	t.Parallel()
	for _, s := range situations() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for i, want := range s.want {
				if want == never {
					continue
				}
				c := s.capabilities(i)
				if err := c.Validate(); err != nil {
					t.Fatalf("column %d: the test's capabilities contradict themselves: %v", i, err)
				}
				got := tools.Converge(c, s.start())
				if got.Do != want {
					t.Errorf("%s (query %t): %s (%s), want %s", c.Class, c.Query, got.Do, got.Reason, want)
				}
				if got.Reason == "" {
					t.Errorf("%s: no reason given", c.Class)
				}
				if (got.Do == person) != (got.Attention != "") {
					t.Errorf("%s: %s with attention %q in the first round", c.Class, got.Do, got.Attention)
				}
			}
		})
	}
}

func TestAWaitLastsUntilTheLatestOfItsReasons(t *testing.T) {
	t.Parallel()
	f := tools.Facts{
		Basis: tools.NotExecuted, CoversAll: true, RunLive: true,
		ResendAfter: 20 * time.Second, RetryAfter: 50 * time.Second, RetentionLeft: time.Hour,
	}
	if got := tools.Converge(column(nothing), f); got.Do != wait || got.Wait != 50*time.Second {
		t.Errorf("not executed: %s for %s, want to wait 50s", got.Do, got.Wait)
	}
	f.Asked, f.SettleLeft = tools.Absent, 70*time.Second
	if got := tools.Converge(column(byQuery), f); got.Do != wait || got.Wait != 70*time.Second {
		t.Errorf("nothing found: %s for %s, want to wait 70s", got.Do, got.Wait)
	}
}

func TestManyRoundsTellAPersonAndNeverConclude(t *testing.T) {
	t.Parallel()
	for _, s := range situations() {
		for i, want := range s.want {
			if want == never {
				continue
			}
			f := s.start()
			first := tools.Converge(s.capabilities(i), f)
			for _, rounds := range []int{tools.RoundsBeforePerson, 1000, math.MaxInt} {
				f.Rounds = rounds
				got := tools.Converge(s.capabilities(i), f)
				if got.Do != first.Do || got.Reason != first.Reason {
					t.Errorf("%s: %s became %s after %d rounds", s.name, first.Do, got.Do, rounds)
				}
				working := f.Basis == tools.InProgress || f.Asked == tools.InProgress
				if c := s.capabilities(i); c.CallsBack && !c.Query {
					working = false // the call may have been lost
				}
				concluded := got.Do == succeed || got.Do == fail
				if !working && !concluded && got.Attention == "" {
					t.Errorf("%s: nobody is told after %d rounds", s.name, rounds)
				}
			}
		}
	}
}

func TestUnusableCapabilitiesGoToAPerson(t *testing.T) {
	t.Parallel()
	for _, c := range []tools.Capabilities{
		{},
		{Class: "from_the_future", MaxRequestMS: 1},
		{Class: tools.ClassOperationQuery, MaxRequestMS: 1},
	} {
		f := tools.Facts{Basis: tools.NotSent, CoversAll: true, RunLive: true}
		if got := tools.Converge(c, f); got.Do != person {
			t.Errorf("%+v: %s, want %s", c, got.Do, person)
		}
	}
}

// Whatever the facts are, the rules that keep an effect from being doubled or
// declared away hold.
func TestNoFactsEverLeadToAnUnsafeStep(t *testing.T) {
	t.Parallel()
	kinds := []tools.Kind{
		"", tools.Succeeded, tools.Rejected, tools.NotSent, tools.NotExecuted,
		tools.InProgress, tools.KeyConflict, tools.Absent, tools.Unknown, "from the future",
	}
	span := rapid.SampledFrom([]time.Duration{-time.Hour, 0, 1, time.Minute, time.Hour})
	rapid.Check(t, func(t *rapid.T) {
		c := column(rapid.IntRange(0, columns-1).Draw(t, "column"))
		if rapid.Bool().Draw(t, "complete") {
			c.OnCancel = tools.OnCancelComplete
		}
		c.ReadOnly = rapid.Bool().Draw(t, "read only")
		c.CallsBack = rapid.Bool().Draw(t, "calls back")
		c.AbsenceIsProof = c.Query && rapid.Bool().Draw(t, "absence is proof")
		f := tools.Facts{
			Basis:         rapid.SampledFrom(kinds).Draw(t, "basis"),
			CoversAll:     rapid.Bool().Draw(t, "covers all"),
			RunLive:       rapid.Bool().Draw(t, "run live"),
			ResendAfter:   span.Draw(t, "resend after"),
			RetentionLeft: span.Draw(t, "retention left"),
			SettleLeft:    span.Draw(t, "settle left"),
			RetryAfter:    span.Draw(t, "retry after"),
			Rounds:        rapid.IntRange(0, 100).Draw(t, "rounds"),
		}
		if c.Query {
			f.Asked = rapid.SampledFrom(kinds).Draw(t, "asked")
		}

		got := tools.Converge(c, f)
		notExecuted := f.CoversAll && (f.Basis == tools.NotSent || f.Basis == tools.NotExecuted)
		refused := f.Basis == tools.Rejected || f.Asked == tools.Rejected
		switch got.Do {
		case query, poll:
			if !c.Query || f.Asked != "" {
				t.Fatal("asks a tool that cannot answer, or asks twice in a round")
			}
		case resend:
			if f.ResendAfter > 0 || f.RetryAfter > 0 {
				t.Fatal("sends again although a sender may be alive or the tool asked for a delay")
			}
			if !f.RunLive && c.OnCancel != tools.OnCancelComplete {
				t.Fatal("sends again for a run that has ended")
			}
			if notExecuted || c.ReadOnly {
				return
			}
			switch c.Class {
			case tools.ClassIdempotencyKey:
				if f.RetentionLeft <= 0 {
					t.Fatal("sends again under a key that may be forgotten")
				}
			case tools.ClassDeterministicID:
				if f.Asked != tools.Absent {
					t.Fatal("sends again without having looked")
				}
			default:
				t.Fatalf("sends again although class %s makes that a second effect", c.Class)
			}
		case fail:
			absent := c.AbsenceIsProof && f.Asked == tools.Absent && f.SettleLeft <= 0 && f.ResendAfter <= 0
			ended := !f.RunLive && (notExecuted || c.ReadOnly)
			if !absent && !ended && !refused {
				t.Fatalf("concludes failure without a verified fact: %s", got.Reason)
			}
		case succeed:
			if f.Basis != tools.Succeeded && f.Asked != tools.Succeeded {
				t.Fatal("concludes success without a confirmation")
			}
		}
	})
}
