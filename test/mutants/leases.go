package main

// leases: taking, keeping and giving back the right to write.
func leases() []mutant {
	const (
		acquire = "FUNCTION leasehold.acquire_lease("
		queue   = "FUNCTION leasehold.acquire_runs("
		take    = "FUNCTION leasehold.take_leases("
		renew   = "FUNCTION leasehold.renew_leases("
		release = "FUNCTION leasehold.release_leases("
		reads   = "FUNCTION leasehold.holds_lease("
		polls   = "FUNCTION leasehold.finished_operations("
	)
	var (
		stale   = store("TestAStaleLeaseChangesNoRowThroughAnyFunction")
		expired = store("TestAnExpiredLeaseIsOfNoUseEvenIfNobodyTookItOver")
		revived = store("TestARenewalThatWaitedPastExpiryDoesNotReviveTheLease")
	)
	return []mutant{
		{
			"acquire: held lease", "a lease that somebody holds is taken over",
			[]edit{{file: leaseSQL, in: acquire, old: "IF v_lease.owner IS NOT NULL AND (v_lease.expires_at > v_at OR v_lease.owner = p_owner) THEN", new: "IF false THEN"}},
			store("TestALiveLeaseIsNotTakenOver"),
		},
		{
			"acquire from the queue: held lease", "a left-over queue row takes a run from its live owner",
			[]edit{{file: leaseSQL, in: queue, old: " AND (l.owner IS NULL OR l.expires_at <= v_at)"}},
			store("TestALiveLeaseIsNotTakenOver"),
		},
		{
			"acquire: clock after the lock", "a takeover that waited counts its lease from before the wait",
			[]edit{
				{file: leaseSQL, in: acquire, old: "  v_at := clock_timestamp();\n"},
				{file: leaseSQL, in: acquire, old: "  v_at     timestamptz;", new: "  v_at     timestamptz := clock_timestamp();"},
			},
			store("TestATakeoverCountsItsLeaseFromAfterItsWait"),
		},
		{
			"acquire: epoch", "two terms of a run bear one epoch",
			[]edit{
				{file: leaseSQL, in: take, old: "l.epoch + 1 AS epoch", new: "greatest(l.epoch, 1) AS epoch"},
				trigger("worker_leases_term"), oneTermPerEpoch(),
			},
			store("TestAnExpiredLeaseIsTakenOverAndItsOldOwnerChangesNothing"),
		},
		{
			"acquire: attempt", "work that kills its process is never charged for it",
			[]edit{{file: leaseSQL, in: take, old: "ELSE r.attempts + 1 END", new: "ELSE r.attempts END"}},
			store("TestAttemptsAreChargedWhenALeaseIsTakenAndExhaustionFailsTheRun"),
		},
		{
			"acquire: deadline", "a run whose deadline has passed is executed",
			[]edit{{file: leaseSQL, in: take, old: " OR r.deadline <= p_at"}},
			store("TestARunPastItsDeadlineFailsAndCancelsWhatWasOnlyPrepared"),
		},
		{
			"renew: owner", "another owner's lease is renewed",
			[]edit{{file: leaseSQL, in: renew, old: "l.owner = q.owner AND "}},
			stale,
		},
		{
			"renew: epoch", "a lease of another term is renewed",
			[]edit{{file: leaseSQL, in: renew, old: " AND l.epoch = q.epoch"}},
			stale,
		},
		{
			"renew: expiry", "a lease that ran out is revived",
			[]edit{{file: leaseSQL, in: renew, old: " AND l.expires_at > v_at"}},
			expired,
		},
		{
			"renew: clock after the lock", "a lease that ran out during the wait is revived",
			[]edit{
				{file: leaseSQL, in: renew, old: "  v_at := clock_timestamp();\n"},
				{file: leaseSQL, in: renew, old: "  v_at     timestamptz;", new: "  v_at     timestamptz := clock_timestamp();"},
			},
			revived,
		},
		{
			"renew: lock in a statement of its own", "the one UPDATE of the textbook reads the clock before it waits",
			[]edit{
				{
					file: leaseSQL, in: renew, old: "ARRAY(SELECT l.run_id FROM worker_leases l WHERE l.run_id = ANY (p_run)\n" +
						"                      ORDER BY l.run_id FOR NO KEY UPDATE);", new: "p_run;",
				},
				{file: leaseSQL, in: renew, old: "l.expires_at > v_at", new: "l.expires_at > clock_timestamp()"},
			},
			revived,
		},
		{
			"renew: a batch never waits", "one slow commit makes every other lease of the worker wait",
			[]edit{{file: leaseSQL, in: renew, old: " SKIP LOCKED"}},
			store("TestOneLockedRunDoesNotDelayItsNeighboursInABatch"),
		},
		{
			"release: owner", "another owner's lease is given back",
			[]edit{{file: leaseSQL, in: release, old: "l.owner = q.owner AND "}},
			stale,
		},
		{
			"release: epoch", "a lease of another term is given back",
			[]edit{{file: leaseSQL, in: release, old: " AND l.epoch = q.epoch"}},
			stale,
		},
		{
			"release: expiry", "an owner that lost its lease gets its attempt back",
			[]edit{{file: leaseSQL, in: release, old: " AND l.expires_at > v_at"}},
			expired,
		},
		{
			"release: epoch kept", "a release zeroes the epoch, and old ones are handed out again",
			[]edit{
				{file: leaseSQL, in: release, old: "SET owner = NULL, expires_at", new: "SET owner = NULL, epoch = 0, expires_at"},
				trigger("worker_leases_term"), oneTermPerEpoch(),
			},
			store("TestAnEpochOutlivesARelease"),
		},
		{
			"read: owner", "a worker reads other workers' runs",
			[]edit{{file: runSQL, in: reads, old: " AND l.owner = p_owner"}},
			stale,
		},
		{
			"read: epoch", "a worker reads on after its term",
			[]edit{{file: runSQL, in: reads, old: " AND l.epoch = p_epoch"}},
			stale,
		},
		{
			"read: expiry", "a worker reads on after its lease ran out",
			[]edit{{file: runSQL, in: reads, old: "\n                   AND l.expires_at > clock_timestamp()"}},
			expired,
		},
		{
			"poll: expiry", "a worker is told results after its lease ran out",
			[]edit{{file: runSQL, in: polls, old: " AND l.expires_at > clock_timestamp()"}},
			expired,
		},
	}
}
