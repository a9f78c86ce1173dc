package main

const (
	callStoreGo = "pkg/store/call.go"
	heartbeatGo = "pkg/protocol/heartbeat.go"
	trustGo     = "pkg/protocol/trust.go"
	protocolPkg = "./pkg/protocol"
	workerPkg   = "./pkg/worker"
	workflowPkg = "./pkg/workflow"
	writerPkg   = "./internal/ledgerwriter"
)

// workers: what a process makes of the database's answers.
func workers() []mutant {
	lost := store("TestAWriteWhoseConnectionWasEndedIsAskedForAgain")
	return []mutant{
		{
			"answer lost: doubt", "no answer is taken for \"not committed\"",
			[]edit{{file: callStoreGo, in: "func judge(", old: "\tif !errors.As(err, &pg) {\n\t\treturn doubt\n", new: "\tif !errors.As(err, &pg) {\n\t\treturn refused\n"}},
			store("FuzzJudge"),
		},
		{
			"answer lost: ended session", "the end of a session is taken for \"not committed\"",
			[]edit{{
				file: callStoreGo, in: "func judge(", old: "if severity != \"ERROR\" {", new: "if severity == \"\" {",
			}},
			lost,
		},
		{
			"group commit: poisoned item", "one write that the database cannot hold fails its neighbours",
			[]edit{{file: "pkg/store/committer.go", old: "case err != nil && len(batch) > 1 &&", new: "case err != nil && len(batch) > maxItems &&"}},
			store("TestOneBadItemNeverFailsItsNeighbours"),
		},
		{
			"results: poisoned item", "one result that the database cannot hold holds up all others",
			[]edit{{file: "internal/ledgerwriter/flush.go", old: "w.limit = max(1, len(batch)/2)", new: "w.limit = max(1, len(batch))"}},
			test{writerPkg, "TestOneResultThatTheDatabaseCannotHoldDoesNotHoldUpTheOthers"},
		},
		{
			"results: unknown outcome", "a result is dropped whose write got no answer",
			[]edit{
				{
					file: "internal/ledgerwriter/flush.go", in: "func (w *Writer[T]) failed(", old: "case !final(err) && !refused(err):",
					new: "case !final(err) && !refused(err) && !errors.Is(err, protocol.ErrOutcomeUnknown):",
				},
				{
					file: "internal/ledgerwriter/flush.go", in: "func (w *Writer[T]) answered(", old: "case errors.Is(err, protocol.ErrOutcomeUnknown), ",
					new: "case ",
				},
				{
					file: "internal/ledgerwriter/flush.go", in: "func (w *Writer[T]) answered(", old: "err != nil && !final(err) && e.tries < patience",
					new: "err != nil && !final(err) && !errors.Is(err, protocol.ErrOutcomeUnknown)",
				},
			},
			test{writerPkg, "TestAnUnknownOutcomeIsAskedForAgainAndADefiniteAnswerIsNot"},
		},
		{
			"heartbeat: lost lease", "work goes on after the database said that the lease is lost",
			[]edit{{
				file: heartbeatGo, old: "case errors.Is(err, ErrLeaseLost), errors.Is(err, ErrTerminal), errors.Is(err, ErrNotFound):",
				new: "case errors.Is(err, ErrTerminal):",
			}},
			test{protocolPkg, "TestALeaseThatIsDefinitelyOverEndsTheRunAtOnce"},
		},
		{
			"heartbeat: end of trust", "work goes on although nobody knows whose the run is",
			[]edit{{file: heartbeatGo, old: "\t\t\tif c.Trust.Expired() {\n", new: "\t\t\tif c.Trust == nil {\n"}},
			test{protocolPkg, "TestADoubtThatOutlastsTheTrustEndsTheRun"},
		},
		{
			"trust: doubt", "a step starts while a renewal is without an answer",
			[]edit{{file: trustGo, in: "func (t *Trust) check()", old: "if t.doubt != nil {", new: "if t.doubt != nil && t.ttl == 0 {"}},
			test{protocolPkg, "TestADoubtEndsOnlyByAnAttemptThatBeganAfterIt"},
		},
		{
			"trust: margin", "a step starts that the lease may not outlast",
			[]edit{{file: trustGo, in: "func (t *Trust) left()", old: "t.ttl - t.margin - ", new: "t.ttl - "}},
			test{protocolPkg, "TestTrustEndsOneMarginBeforeTheTTLCountedFromTheAttempt"},
		},
		{
			"trust: suspend", "a machine that slept believes that its lease holds",
			[]edit{{file: trustGo, in: "func (t *Trust) Extend(", old: "began.Elapsed() <= t.doubt.Elapsed()", new: "began.Elapsed() > 0"}},
			test{protocolPkg, "TestADoubtEndsOnlyByAnAttemptThatBeganAfterIt"},
		},
		{
			"drain: code that runs", "a run is handed back while its code still runs",
			[]edit{{
				file: "pkg/worker/drain.go", old: "\t\ts.log.Warn(\"run abandoned:", new: "\t\ts.release()\n\t\ts.log.Warn(\"run abandoned:",
			}},
			test{workerPkg, "TestADrainAbandonsCodeThatDoesNotStopAndKeepsItsLeaseFromOthers"},
		},
		{
			"drain: unknown outcome", "a run is handed back whose last write may have been made",
			[]edit{{file: "pkg/worker/finish.go", old: "errors.Is(cause, errDrained) && !s.unsure &&", new: "cause != nil &&"}},
			test{workerPkg, "TestAWriteThatStaysUnknownEndsTheSessionWithoutAnOutcome"},
		},
		{
			"step: stored result", "a finished step is executed again",
			[]edit{{file: "pkg/workflow/do.go", in: "func (r *Run) Do(", old: "} else if ok {", new: "} else if ok && done.Do == nil {"}},
			test{workflowPkg, "TestAFinishedStepReturnsItsStoredResultAndIsNeverExecutedAgain"},
		},
	}
}
