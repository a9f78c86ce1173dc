package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// lowWater remembers, for each tool, how far claims have come, so that a claim
// steps over the dead index entries behind it. A commit may become visible
// with an older time than what was claimed meanwhile: the bound keeps a slack,
// and one claim in every sweep interval is unbounded.
type lowWater struct {
	mu    sync.Mutex // guards tools
	tools map[string]mark
}

type mark struct {
	claimed time.Time // newest prepared_at claimed (database clock)
	swept   time.Time // last unbounded claim (our clock; only its age is used)
}

const (
	lowWaterSlack = time.Minute
	sweepInterval = 10 * time.Second
)

func newLowWater() *lowWater { return &lowWater{tools: make(map[string]mark)} }

// since returns the lower bound for the next claim of a tool.
func (l *lowWater) since(tool string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.tools[tool]
	if m.claimed.IsZero() || time.Since(m.swept) >= sweepInterval { //nolint:forbidigo // an age, on our own clock
		m.swept = time.Now() //nolint:forbidigo // the same
		l.tools[tool] = m
		return time.Unix(0, 0)
	}
	return m.claimed.Add(-lowWaterSlack)
}

func (l *lowWater) advance(tool string, preparedAt time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.tools[tool]; preparedAt.After(m.claimed) {
		m.claimed = preparedAt
		l.tools[tool] = m
	}
}

// -- name: ClaimOperations
const claimOperationsSQL = `SELECT operation_id, revision, run_id, step_id, effect_version, tool_name,
    request_digest, attempts, first_send_at, remote_id, prepared_at, waited_ms
  FROM leasehold.claim_operations($1, $2, $3, $4, $5, $6)`

// -- name: ReadClaimed
const readClaimedSQL = `SELECT operation_id, request_body, capabilities FROM leasehold.read_claimed($1, $2)`

// ClaimOperations claims at most r.Slots[tool] operations of each tool, 100 in
// all. The claim is committed when it returns; the bodies are read afterwards,
// without a lock. An operation whose body could not be read, or whose claim's
// reply was lost for good, is not returned: its claim runs out and it becomes
// a doubt, which is safe.
func (s *Store) ClaimOperations(ctx context.Context, r ClaimRequest) ([]ClaimedOperation, error) {
	var (
		tools []string
		slots []int32
		since []time.Time
	)
	for tool, n := range r.Slots {
		if n > 0 {
			tools, slots = append(tools, tool), append(slots, int32(n))
			since = append(since, s.marks.since(tool))
		}
	}
	if len(tools) == 0 {
		return nil, nil
	}
	owner := r.Owner.String()
	list, err := query(ctx, s.pool, true, "claim operations", func(attempt int) (string, []any) {
		return claimOperationsSQL, []any{owner, tools, slots, since, r.TTL.Milliseconds(), attempt > 0}
	}, func(row pgx.CollectableRow) (ClaimedOperation, error) {
		op, prepared, err := scanClaimed(row, r.Owner)
		if err == nil {
			s.marks.advance(op.Tool, prepared)
		}
		return op, err
	})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return s.readBodies(ctx, readClaimedSQL, owner, list)
}

func scanClaimed(row pgx.CollectableRow, owner protocol.Owner) (ClaimedOperation, time.Time, error) {
	var (
		op       = ClaimedOperation{Claim: protocol.Claim{Owner: owner}}
		first    *time.Time
		remote   *string
		prepared time.Time
		waitedMS int64
	)
	err := row.Scan((*string)(&op.Claim.OperationID), (*int64)(&op.Claim.Revision), (*uuid.UUID)(&op.RunID),
		(*string)(&op.StepID), (*int32)(&op.EffectVersion), &op.Tool, &op.Digest, &op.Attempt, &first, &remote,
		&prepared, &waitedMS)
	op.FirstSentAt, op.RemoteID, op.Waited = deref(first), deref(remote), millis(waitedMS)
	return op, prepared, err
}

// readBodies completes claimed operations with what may be large.
func (s *Store) readBodies(
	ctx context.Context, sql, owner string, list []ClaimedOperation,
) ([]ClaimedOperation, error) {
	type body struct {
		ID           string
		Body         []byte
		Capabilities []byte
	}
	ids := mapSlice(list, func(op ClaimedOperation) string { return string(op.Claim.OperationID) })
	rows, err := query(ctx, s.pool, true, "read claimed operations", func(int) (string, []any) {
		return sql, []any{owner, ids}
	}, pgx.RowToStructByPos[body])
	if err != nil {
		return nil, err
	}
	byID := make(map[string]body, len(rows))
	for _, b := range rows {
		byID[b.ID] = b
	}
	out := list[:0]
	for _, op := range list {
		if b, ok := byID[string(op.Claim.OperationID)]; ok {
			op.Body, op.Capabilities = b.Body, b.Capabilities
			out = append(out, op)
		}
	}
	return out, nil
}

// -- name: CompleteOperations
const completeOperationsSQL = `SELECT item, outcome, revision
  FROM leasehold.complete_operations($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`

type outcomeRow struct {
	Item     int
	Outcome  string
	Revision int64
}

// CompleteOperations writes what a dispatcher learnt, in one call; each result
// has its own outcome. A result whose claim is over is kept as evidence by the
// same call and answered with ErrClaimLost. ErrBusy: offer that result again,
// alone.
//
// An error is for the call as a whole: it may be offered again with the same
// call ids, and must be until it is answered.
func (s *Store) CompleteOperations(ctx context.Context, results []OperationResult) ([]OperationOutcome, error) {
	c := resultColumnsOf(results)
	rows, err := query(ctx, s.pool, true, "complete operations", func(int) (string, []any) {
		return completeOperationsSQL, []any{
			c.ids, c.owners, c.revisions, c.calls, c.digests, c.statuses, c.remotes, c.results, c.bases,
			c.evidence, c.attentions, c.next, singleWait(len(results)),
		}
	}, pgx.RowToStructByPos[outcomeRow])
	if err != nil {
		return nil, err
	}
	out := make([]OperationOutcome, len(results))
	for _, r := range rows {
		out[r.Item-1] = operationOutcome("complete", results[r.Item-1].Claim.OperationID, r)
	}
	return out, nil
}

// singleWait lets a call with one item wait for its row (milliseconds); a
// batch never waits.
func singleWait(items int) int {
	if items == 1 {
		return 1000
	}
	return 0
}

func operationOutcome(verb string, id protocol.OperationID, r outcomeRow) OperationOutcome {
	o := OperationOutcome{ID: id, Revision: protocol.Revision(r.Revision)}
	var cause error
	switch r.Outcome {
	case "ok":
		return o
	case "busy":
		cause = protocol.ErrBusy
	case "missing":
		cause = protocol.ErrNotFound
	case "not_allowed":
		cause = protocol.ErrNotAllowed
	default:
		cause = protocol.ErrClaimLost
	}
	o.Err = fmt.Errorf("%s operation %s: %w", verb, id, cause)
	return o
}

// -- name: RecordEvidence
const recordEvidenceSQL = `SELECT leasehold.record_evidence($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`

// RecordEvidence keeps what was learnt although it can change nothing now: it
// works with the gate closed and for ids that the database does not know.
func (s *Store) RecordEvidence(ctx context.Context, results []OperationResult) error {
	c := resultColumnsOf(results)
	_, err := query(ctx, s.pool, true, "record evidence", func(int) (string, []any) {
		return recordEvidenceSQL, []any{
			c.ids, c.owners, c.revisions, c.calls, c.digests, c.statuses, c.remotes, c.results, c.bases, c.evidence,
		}
	}, func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, nil })
	return err
}

type resultColumns struct {
	ids, owners, digests, statuses []string
	revisions                      []int64
	calls                          []uuid.UUID
	remotes, bases, attentions     []*string
	results, evidence              [][]byte
	next                           []int64
}

func resultColumnsOf(results []OperationResult) resultColumns {
	var c resultColumns
	for _, r := range results {
		c.ids = append(c.ids, string(r.Claim.OperationID))
		c.owners = append(c.owners, r.Claim.Owner.String())
		c.revisions = append(c.revisions, int64(r.Claim.Revision))
		c.calls = append(c.calls, uuid.UUID(r.Call))
		c.digests = append(c.digests, r.Digest)
		c.statuses = append(c.statuses, string(r.Status))
		c.remotes = append(c.remotes, nullText(r.RemoteID))
		c.results = append(c.results, jsonText(r.Result))
		c.bases = append(c.bases, nullText(r.Basis))
		c.evidence = append(c.evidence, jsonText(r.Evidence))
		c.attentions = append(c.attentions, nullText(r.Attention))
		c.next = append(c.next, r.NextAttempt.Milliseconds())
	}
	return c
}

// -- name: PauseTool
const pauseToolSQL = `SELECT leasehold.pause_tool($1, $2, $3)`

// PauseTool stops claims of a tool for every dispatcher for d (at most 1 h).
func (s *Store) PauseTool(ctx context.Context, tool string, d time.Duration, reason string) error {
	ms := min(max(d, time.Millisecond), time.Hour).Milliseconds()
	_, err := query(ctx, s.pool, true, "pause tool "+tool, func(int) (string, []any) {
		return pauseToolSQL, []any{tool, ms, reason}
	}, func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, nil })
	return err
}
