package sqltool

// DDL makes the table of records. It belongs into the database of the effect,
// into a schema on the search_path of the tool's role, which needs SELECT,
// INSERT and UPDATE on it. Rows may be deleted once they are older than the
// tool's retention.
const DDL = `CREATE TABLE leasehold_effects (
    operation_id text PRIMARY KEY,
    run_id       uuid NOT NULL,
    step_id      text NOT NULL,
    tool         text NOT NULL,
    digest       text NOT NULL,
    result       jsonb,
    recorded_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
`

// -- name: InsertRecord
// An insert of the same id by a transaction that is still open is waited for.
const insertRecordSQL = `INSERT INTO leasehold_effects (operation_id, run_id, step_id, tool, digest)
VALUES ($1, $2, $3, $4, $5) ON CONFLICT (operation_id) DO NOTHING`

// -- name: CheckConstraints
// A deferred constraint would speak at COMMIT, where an error is doubt.
const checkConstraintsSQL = `SET CONSTRAINTS ALL IMMEDIATE`

// -- name: StoreResult
const storeResultSQL = `UPDATE leasehold_effects SET result = $2::jsonb WHERE operation_id = $1`

// -- name: FindRecord
const findRecordSQL = `SELECT digest, result::text FROM leasehold_effects WHERE operation_id = $1`
