-- +goose Up
-- +goose StatementBegin

-- Logical work. task_id is the caller's and is stable across retries.
CREATE TABLE leasehold.agent_tasks (
  task_id           text PRIMARY KEY CHECK (task_id <> '' AND octet_length(task_id) <= 200),
  tenant_id         text NOT NULL DEFAULT 'default' CHECK (tenant_id ~ '^[A-Za-z0-9._:-]{1,63}$'),
  workflow          text NOT NULL CHECK (workflow <> ''),
  -- Digest of what the task was created with: the same id with another
  -- definition is a conflict, not a second task.
  definition_digest text NOT NULL,
  active_run_id     uuid,
  created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at        timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One execution. The row stays small and is updated in place: the history is
-- in run_journal, so that a step costs the same at step 5 and at step 5,000.
CREATE TABLE leasehold.agent_runs (
  run_id       uuid PRIMARY KEY,
  task_id      text NOT NULL REFERENCES leasehold.agent_tasks(task_id),
  status       text NOT NULL CHECK (status IN ('pending','running','succeeded','failed','cancelled')),
  revision     bigint NOT NULL DEFAULT 0 CHECK (revision >= 0),
  checkpoint   jsonb NOT NULL DEFAULT '{}'::jsonb,
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  tenant_id    text NOT NULL,
  workflow     text NOT NULL,
  queue        text NOT NULL DEFAULT 'default' CHECK (queue <> ''),
  priority     integer NOT NULL DEFAULT 0,
  input        jsonb NOT NULL DEFAULT 'null'::jsonb,
  result       jsonb,
  failure      jsonb,
  attempts     integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  max_attempts integer NOT NULL DEFAULT 10 CHECK (max_attempts > 0),
  deadline     timestamptz,
  resumed_from uuid REFERENCES leasehold.agent_runs(run_id),
  finished_at  timestamptz
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX agent_runs_task_created_idx ON leasehold.agent_runs (task_id, created_at DESC);
CREATE UNIQUE INDEX agent_runs_one_live_per_task_idx ON leasehold.agent_runs (task_id)
  WHERE status IN ('pending','running');
-- For people's lists; status changes at most twice in a run's life.
CREATE INDEX agent_runs_status_idx ON leasehold.agent_runs (status, created_at DESC);

-- The right to write a run. Narrow, half-empty pages and no index on what a
-- renewal changes: renewals stay heap-only (an index on expires_at costs 0 %
-- HOT and 13 times its own size in churn). A row exists only while its run is
-- live; its epochs stay in lease_journal.
CREATE TABLE leasehold.worker_leases (
  run_id     uuid PRIMARY KEY REFERENCES leasehold.agent_runs(run_id),
  owner      text,
  epoch      bigint NOT NULL DEFAULT 0 CHECK (epoch >= 0),
  expires_at timestamptz NOT NULL DEFAULT 'epoch',
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_cost_delay = 0);

-- The sweep for expired leases walks the owned ones; a renewal does not change
-- owner, so it leaves this index alone.
CREATE INDEX worker_leases_owned_idx ON leasehold.worker_leases (run_id) WHERE owner IS NOT NULL;

-- One row per term. Append-only; the primary key makes it impossible to hand
-- out an epoch twice in one history.
CREATE TABLE leasehold.lease_journal (
  run_id              uuid NOT NULL REFERENCES leasehold.agent_runs(run_id),
  epoch               bigint NOT NULL CHECK (epoch > 0),
  kind                text NOT NULL DEFAULT 'acquire' CHECK (kind IN ('acquire','raise')),
  owner               text NOT NULL,
  worker              text NOT NULL DEFAULT '',
  previous_owner      text,
  previous_expires_at timestamptz,
  created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (run_id, epoch)
);

-- Every accepted write of a run is one row, so forks and gaps are impossible.
-- Append-only.
CREATE TABLE leasehold.run_journal (
  run_id     uuid NOT NULL REFERENCES leasehold.agent_runs(run_id),
  revision   bigint NOT NULL CHECK (revision > 0),
  kind       text NOT NULL CHECK (kind IN
               ('start','step','plan','checkpoint','park','retry','complete','fail','cancel')),
  step_id    text,
  payload    jsonb,
  owner      text,
  epoch      bigint,
  call_id    uuid NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (run_id, revision),
  -- Only the control plane writes without a lease, and only a cancel.
  CHECK ((owner IS NULL AND epoch IS NULL AND kind = 'cancel') OR (owner IS NOT NULL AND epoch > 0))
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05);

-- A row stands for a run that a worker may acquire, now (ready) or later.
-- Acquiring deletes it in the same call that takes the lease.
CREATE TABLE leasehold.run_queue (
  run_id       uuid PRIMARY KEY REFERENCES leasehold.agent_runs(run_id),
  workflow     text NOT NULL,
  queue        text NOT NULL,
  priority     integer NOT NULL,
  available_at timestamptz NOT NULL,
  ready        boolean NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX run_queue_ready_idx ON leasehold.run_queue (workflow, queue, priority, available_at) WHERE ready;
CREATE INDEX run_queue_later_idx ON leasehold.run_queue (available_at) WHERE NOT ready;

-- What a parked run waits for. The finisher of an awaited operation counts
-- remaining down and at zero puts the run back into the queue.
CREATE TABLE leasehold.run_waits (
  run_id     uuid PRIMARY KEY REFERENCES leasehold.agent_runs(run_id),
  operations text[] NOT NULL CHECK (cardinality(operations) > 0),
  remaining  integer NOT NULL CHECK (remaining >= 0),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);

-- The ledger of side-effect intents.
CREATE TABLE leasehold.tool_operations (
  operation_id    text PRIMARY KEY CHECK (octet_length(operation_id) <= 255),
  run_id          uuid NOT NULL REFERENCES leasehold.agent_runs(run_id),
  step_id         text NOT NULL CHECK (step_id ~ '^[A-Za-z0-9._:-]{1,128}$'),
  effect_version  integer NOT NULL CHECK (effect_version > 0),
  tool_name       text NOT NULL,
  request_digest  text NOT NULL,
  request_body    jsonb NOT NULL,
  status          text NOT NULL CHECK (status IN
                    ('prepared','dispatching','unknown','succeeded','failed_final','cancelled')),
  dispatch_owner  text,
  dispatch_until  timestamptz,
  remote_id       text,
  result          jsonb,
  revision        bigint NOT NULL DEFAULT 0 CHECK (revision >= 0),
  updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- Why it may not be claimed yet ('approval', 'paused'); null: it may.
  hold            text,
  -- Until when an approval may be used; past that it is none.
  approved_until  timestamptz,
  -- What the tool promised when the intent was registered. The database
  -- enforces this snapshot: a later configuration cannot widen an old intent.
  capabilities    jsonb NOT NULL,
  -- The real thing that the operation acts on, where the tool says which part
  -- of the request names it (resource_of): of these one is in flight at a time.
  resource_key    text CHECK (octet_length(resource_key) <= 200),
  attempts        integer NOT NULL DEFAULT 0,
  first_send_at   timestamptz,
  -- The end of the last claim or re-send grant: until then, plus the tool's
  -- maximum request time, a sender may be alive.
  last_send_until timestamptz,
  unknown_since   timestamptz,
  -- When a reconciler takes the doubt up; null: only a person (or new
  -- evidence) moves it.
  next_attempt_at timestamptz,
  rounds          integer NOT NULL DEFAULT 0,
  reconcile_owner text,
  reconcile_until timestamptz,
  -- Why a person is needed; null: nobody is.
  attention       text,
  resolved_by     text CHECK (resolved_by IN ('response','query','retry','late_response','callback','operator')),
  UNIQUE (run_id, step_id, effect_version),
  CHECK (right(operation_id, length(run_id::text || step_id || effect_version::text) + 3)
         = '/' || run_id::text || '/' || step_id || '/' || effect_version::text),
  CHECK ((status = 'dispatching') = (dispatch_until IS NOT NULL)),
  CHECK (status <> 'dispatching' OR dispatch_owner IS NOT NULL),
  CHECK (status <> 'unknown' OR unknown_since IS NOT NULL),
  CHECK ((status IN ('succeeded','failed_final')) = (resolved_by IS NOT NULL))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- One partial index per question, instead of one over (status, dispatch_until,
-- updated_at), which sorts the whole backlog for every claim.
CREATE INDEX tool_operations_prepared_idx ON leasehold.tool_operations (tool_name, updated_at)
  WHERE status = 'prepared' AND hold IS NULL;
CREATE INDEX tool_operations_dispatching_idx ON leasehold.tool_operations (dispatch_until)
  WHERE status = 'dispatching';
CREATE INDEX tool_operations_unknown_idx ON leasehold.tool_operations (tool_name, next_attempt_at)
  WHERE status = 'unknown' AND next_attempt_at IS NOT NULL;
CREATE INDEX tool_operations_attention_idx ON leasehold.tool_operations (unknown_since)
  WHERE status = 'unknown' AND attention IS NOT NULL;

-- The wall behind claim_operations: a doubt is in flight, too.
CREATE UNIQUE INDEX tool_operations_resource_idx ON leasehold.tool_operations (tool_name, resource_key)
  WHERE resource_key IS NOT NULL AND status IN ('dispatching','unknown');

-- Numbers the pieces of evidence among themselves; a transition has entry 0.
CREATE SEQUENCE leasehold.operation_evidence_seq;

-- Every transition of an operation with its revision, and every piece of
-- evidence. Append-only. No foreign key: evidence about an id that this
-- database does not know (lost in a failover) must be recordable.
CREATE TABLE leasehold.operation_journal (
  operation_id   text NOT NULL,
  revision       bigint NOT NULL,
  entry          bigint NOT NULL DEFAULT 0,
  kind           text NOT NULL CHECK (kind IN
                   ('claim','result','expire','resend','resolve','decide','cancel',
                    'evidence','query','contradiction','approval')),
  from_status    text,
  to_status      text,
  owner          text,
  claim_revision bigint,
  basis          text,
  trusted        boolean NOT NULL DEFAULT false,
  remote_id      text,
  result         jsonb,
  evidence       jsonb,
  call_id        uuid,
  -- The signed message of a tool that brought it (receive_callback); null: it
  -- was not called back.
  message        text,
  created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (operation_id, revision, entry)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE INDEX operation_journal_contradiction_idx ON leasehold.operation_journal (created_at)
  WHERE kind = 'contradiction';

-- What dispatchers share about a tool: a refused dial or a Retry-After pauses
-- claiming for everybody.
CREATE TABLE leasehold.tool_state (
  tool_name    text PRIMARY KEY,
  paused_until timestamptz NOT NULL,
  reason       text NOT NULL,
  updated_at   timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- Who did what through the control plane, and why. Append-only.
CREATE TABLE leasehold.audit_log (
  audit_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  actor         text NOT NULL CHECK (actor <> ''),
  database_role text NOT NULL,
  action        text NOT NULL,
  task_id       text,
  run_id        uuid,
  operation_id  text,
  reason        text NOT NULL DEFAULT '',
  detail        jsonb,
  created_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row. Every transition function reads it after its first lock.
CREATE TABLE leasehold.database_gate (
  only_row          boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  state             text NOT NULL CHECK (state IN ('open','no_dispatch','closed')),
  reason            text NOT NULL DEFAULT '',
  incarnation       bigint NOT NULL DEFAULT 1,
  system_identifier text,
  timeline          text,
  postmaster_start  timestamptz,
  updated_at        timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
INSERT INTO leasehold.database_gate (state) VALUES ('open');

GRANT SELECT ON ALL TABLES IN SCHEMA leasehold TO leasehold_auditor, leasehold_operator;

-- +goose StatementEnd
