package main

import "slices"

const (
	leaseSQL     = "migrations/functions/lease.sql"
	runSQL       = "migrations/functions/run.sql"
	taskSQL      = "migrations/functions/task.sql"
	waitSQL      = "migrations/functions/wait.sql"
	operationSQL = "migrations/functions/operation.sql"
	doubtSQL     = "migrations/functions/doubt.sql"
	approvalSQL  = "migrations/functions/approval.sql"
	callbackSQL  = "migrations/functions/callback.sql"
	gateSQL      = "migrations/functions/gate.sql"
	guardSQL     = "migrations/functions/guard.sql"
	schemaSQL    = "migrations/schema/0001_create_ledger.sql"
)

// table lists all mutants, in the order of a run's life.
func table() []mutant {
	return slices.Concat(leases(), writes(), endings(), claims(), results(), callbacks(), resends(), conclusions(), sending(), workers())
}

func store(name string) test { return test{"./pkg/store", name} }

// trigger removes a trigger of guard.sql.
func trigger(name string) edit {
	return edit{file: guardSQL, old: "CREATE OR REPLACE TRIGGER " + name + " ", through: ";\n"}
}

// endedWithPrepared removes the constraint trigger that repeats "a terminal run
// has no prepared operation".
func endedWithPrepared() edit {
	return edit{file: guardSQL, old: "CREATE CONSTRAINT TRIGGER agent_runs_no_prepared ", through: ";\n"}
}

// oneTermPerEpoch removes the key of the journal of terms, which repeats that
// an epoch is handed out once.
func oneTermPerEpoch() edit {
	return edit{file: schemaSQL, old: "PRIMARY KEY (run_id, epoch)", new: "UNIQUE (run_id, epoch, owner)"}
}
