package main

const (
	callGo      = "internal/sending/call.go"
	deadlineGo  = "internal/sending/deadline.go"
	requestGo   = "internal/sending/request.go"
	gateGo      = "pkg/tools/sendonce/gate.go"
	exchangeGo  = "pkg/tools/sendonce/exchange.go"
	convergeGo  = "pkg/tools/converge.go"
	dispatcher  = "./pkg/dispatcher"
	sendingPkg  = "./internal/sending"
	sendoncePkg = "./pkg/tools/sendonce"
)

// sending: from the claim to the last byte.
func sending() []mutant {
	return []mutant{
		{
			"send: deadline", "a process that was frozen after its claim calls the adapter",
			[]edit{{file: callGo, in: "func enter(", old: "err := ctx.Err(); err != nil {", new: "err := ctx.Err(); err != nil && ctx == nil {"}, {
				file: callGo, in: "func enter(", old: "ok && d.Left() < need", new: "ok && d.Left() < need && d.Left() > 0",
			}},
			test{sendingPkg, "TestACallAfterItsDeadlineDoesNotEnterTheAdapter"},
		},
		{
			"send: clock that counts suspend", "a machine that was suspended sends before its timers fire",
			[]edit{{file: deadlineGo, in: "func (c deadlineContext) Err() error", old: "c.deadline.Left() <= 0", new: "c.deadline.limit < 0"}},
			test{sendingPkg, "TestAnAdapterThatChecksLastSeesADeadlineThatPassedInASuspend"},
		},
		{
			"send: time for a whole call", "a call is begun that has to be cut off, and is a doubt",
			[]edit{{file: callGo, in: "func enter(", old: "ok && d.Left() < need", new: "ok && need < 0"}},
			test{sendingPkg, "TestACallThatWouldHaveToBeCutOffIsNotBegun"},
		},
		{
			"send: digest", "a request is sent that nobody planned",
			[]edit{{file: requestGo, old: "if digest != op.Digest {", new: "if digest == \"\" {"}},
			test{dispatcher, "TestAnOperationWhoseRequestWasAlteredIsNotSent"},
		},
		{
			"first byte: deadline", "a process that was frozen while it composed its request sends it",
			[]edit{{file: gateGo, in: "func (g *gate) pass() error", old: "err := g.may(); err != nil {", new: "err := g.may(); err != nil && g.begun {"}},
			test{sendoncePkg, "TestAProcessThatWakesUpAfterTheDeadlineSendsNothing"},
		},
		{
			"last byte: deadline", "a request that was cut off by its deadline is completed",
			[]edit{{
				file: gateGo, in: "func (g *gate) Close() error", old: "doubt := g.begun && g.may != nil && (!g.answered || g.may() != nil)",
				new: "doubt := false",
			}, {file: gateGo, in: "func (g *gate) abort()", old: "\tg.reset()\n"}},
			test{sendoncePkg, "TestARequestCutOffByTheDeadlineIsNeverCompleted"},
		},
		{
			"first byte: sealed", "a request leaves after it was declared not sent",
			[]edit{{file: gateGo, in: "func (g *gate) pass() error", old: "if g.sealed != nil {", new: "if g.sealed != nil && g.begun {"}},
			test{sendoncePkg, "TestASealedGateLetsNothingOut"},
		},
		{
			"redirects", "a write is sent to where the remote points",
			[]edit{{
				file: exchangeGo, old: "resp, err := cn.RoundTrip(hreq)",
				new: "resp, err := (&http.Client{Transport: cn}).Do(hreq)",
			}},
			test{sendoncePkg, "TestRedirectsAreAnswersAndAreNotFollowed"},
		},
		{
			"stray answer", "what a remote says unasked is taken for the answer",
			[]edit{{file: exchangeGo, old: "\t} else if err == nil {", new: "\t} else if err == nil && resp == nil {"}},
			test{sendoncePkg, "TestAnAnswerThatCameBeforeTheRequestLeftIsNotItsAnswer"},
		},
		{
			"panic", "an adapter's panic takes every call in flight with it",
			[]edit{{file: callGo, in: "func guard(", old: "p := recover()", new: "p := any(nil)"}},
			test{sendingPkg, "TestAPanicIsDoubtAndItsValueStaysOutOfTheLedger"},
		},
		{
			"converge: proof of every attempt", "one refused attempt decides about those without an answer",
			[]edit{{file: convergeGo, old: "\t\tif f.CoversAll {\n\t\t\treturn notExecuted(c, f)", new: "\t\tif true {\n\t\t\treturn notExecuted(c, f)"}},
			test{"./pkg/tools", "TestEveryClassHasANextStepForEveryEvidence"},
		},
	}
}
