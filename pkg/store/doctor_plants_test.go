package store_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// plant makes a violation: as superuser, with the triggers and foreign keys off.
func (b *bundle) plant(s spot, statements ...string) {
	b.t.Helper()
	tx, err := b.db.Pool(b.t, "").Begin(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(b.ctx) }()
	if _, err := tx.Exec(b.ctx, `SET LOCAL session_replication_role = replica`); err != nil {
		b.t.Fatal(err)
	}
	for _, sql := range statements {
		tag, err := tx.Exec(b.ctx, sql, pgx.NamedArgs{"task": s.task, "run": s.run, "op": s.op})
		if err != nil {
			b.t.Fatalf("plant %s: %v", sql, err)
		}
		if tag.RowsAffected() == 0 && (tag.Update() || tag.Delete() || tag.Insert()) {
			b.t.Fatalf("plant %s changed nothing", sql)
		}
	}
	if err := tx.Commit(b.ctx); err != nil {
		b.t.Fatal(err)
	}
}

// violation is one plant: what it is made of, and which check must find it.
type violation struct {
	code, name string
	// make makes what is broken, healthy as yet.
	make func(b *bundle) spot
	sql  []string
	// subject is whom the finding is about: "task", "run", "op", or the text
	// itself.
	subject string
	// also may be found besides: one breach that is two.
	also string
}

const (
	noChecks = `DO $$ DECLARE c record; BEGIN
	  FOR c IN SELECT conname FROM pg_constraint WHERE conrelid = 'leasehold.tool_operations'::regclass AND contype = 'c' LOOP
	    EXECUTE format('ALTER TABLE leasehold.tool_operations DROP CONSTRAINT %I', c.conname);
	  END LOOP; END $$`
	noUniqueIntent = `DO $$ DECLARE c record; BEGIN
	  FOR c IN SELECT conname FROM pg_constraint WHERE conrelid = 'leasehold.tool_operations'::regclass AND contype = 'u' LOOP
	    EXECUTE format('ALTER TABLE leasehold.tool_operations DROP CONSTRAINT %I', c.conname);
	  END LOOP; END $$`
	// ofRun and ofOp end statements about what was made.
	ofRun = ` WHERE run_id = @run::uuid`
	ofOp  = ` WHERE operation_id = @op`
	// copied is what an operation's copy takes over.
	copied = `tool_name, request_digest, request_body, status, capabilities, created_at, updated_at FROM leasehold.tool_operations` + ofOp
	// answer is evidence of success, by whom and for which claim is appended.
	answer = `INSERT INTO leasehold.operation_journal (operation_id, revision, entry, kind, from_status, to_status, basis, trusted, claim_revision, owner)
	  SELECT operation_id, revision + 1, 7, 'evidence', to_status, 'succeeded', 'succeeded', true, revision, `
)

func onRunning(b *bundle) spot { return b.stepped().spot("") }
func onPending(b *bundle) spot {
	return (&held{b: b, lease: protocol.Lease{RunID: b.task(nil)}}).spot("")
}
func onPrepared(b *bundle) spot    { _, s := b.prepared(); return s }
func onDispatching(b *bundle) spot { _, _, s := b.claimed(keyed, ttl); return s }
func onUnknown(b *bundle) spot     { _, _, s := b.doubted(keyed); return s }
func onSucceeded(b *bundle) spot   { _, s := b.ended(protocol.OperationSucceeded); return s }
func onRejected(b *bundle) spot    { _, s := b.ended(protocol.OperationFailedFinal); return s }
func onDecided(b *bundle) spot     { _, s := b.decided(); return s }
func onNothing(*bundle) spot       { return spot{} }
func onCancelled(b *bundle) spot   { s, _ := b.cancelled(); return s }
func onSent(b *bundle) spot        { _, s := b.cancelled(); return s }
func onRetried(b *bundle) spot     { _, s := b.retried(); return s }

func setOp(columns string) string  { return `UPDATE leasehold.tool_operations SET ` + columns + ofOp }
func setRun(columns string) string { return `UPDATE leasehold.agent_runs SET ` + columns + ofRun }
func setLease(columns string) string {
	return `UPDATE leasehold.worker_leases SET ` + columns + ofRun
}

func setEntry(kind, columns string) string {
	return `UPDATE leasehold.operation_journal SET ` + columns + ofOp + ` AND kind = '` + kind + `'`
}

// redate moves an operation and its plan, which have one date.
func redate(to string) []string {
	return []string{
		`UPDATE leasehold.run_journal SET created_at = (SELECT ` + to + ` FROM leasehold.tool_operations` + ofOp + `)` + ofRun + ` AND kind = 'plan'`,
		setOp(`created_at = ` + to),
	}
}

// violations has at least one for every check, in groups that share a database.
func violations() map[string][]violation {
	return map[string][]violation{
		"runs":       runViolations(),
		"leases":     leaseViolations(),
		"operations": operationViolations(),
		"sends":      sendViolations(),
		"facts":      factViolations(),
		"catalogue":  catalogueViolations(),
	}
}

// Each violation is planted into a healthy database, and exactly its check must
// find it: what it names more than before, and nobody else does.
func TestEachCheckFindsItsPlantedViolation(t *testing.T) {
	t.Parallel()
	for group, list := range violations() {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.scene()
			auditor := b.open("auditor", nil)
			look := func() map[string]store.Finding {
				found, err := auditor.Doctor(b.ctx, store.DoctorOptions{Samples: 1000})
				if err != nil {
					b.t.Fatal(err)
				}
				by := make(map[string]store.Finding, len(found))
				for _, f := range found {
					by[f.Code] = f
				}
				return by
			}
			before := look()
			for _, v := range list {
				t.Run(v.code+" "+v.name, func(t *testing.T) {
					b.t = t
					s := v.make(b)
					b.plant(s, v.sql...)
					after := look()
					defer func() { before = after }()
					subject := map[string]string{"task": s.task, "run": s.run, "op": s.op}[v.subject]
					if subject == "" {
						subject = v.subject
					}
					if !newIn(before[v.code], after[v.code], subject) {
						t.Errorf("not found for %s: %+v", subject, after[v.code].Rows)
					}
					for code, f := range after {
						if code != v.code && code != v.also && f.Total > before[code].Total {
							t.Errorf("%s found it too: %+v", code, f.Rows)
						}
					}
				})
				b.t = t
			}
		})
	}
}

func newIn(before, after store.Finding, subject string) bool {
	return slices.ContainsFunc(after.Rows, func(r store.FindingRow) bool {
		return r.Subject == subject && r.Detail != "" && !slices.Contains(before.Rows, r)
	})
}

func TestEveryCheckHasAPlantedViolation(t *testing.T) {
	t.Parallel()
	planted := map[string]bool{}
	for _, list := range violations() {
		for _, v := range list {
			planted[v.code] = true
		}
	}
	for _, c := range store.DoctorChecks() {
		if !planted[c.Code] {
			t.Errorf("no test plants a violation of %s", c.Code)
		}
	}
}

func TestTheDoctorKnowsEveryTriggerOfTheSchema(t *testing.T) {
	t.Parallel()
	b := setup(t)
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`\('(\w+)','(\w+)'\)`).FindAllStringSubmatch(store.DoctorTriggers, -1) {
		known[m[1]+"."+m[2]] = true
	}
	there := b.column(`SELECT c.relname || '.' || t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
	  JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'leasehold' AND NOT t.tgisinternal`)
	for _, trigger := range there {
		if !known[trigger] {
			t.Errorf("the doctor does not look for %s", trigger)
		}
	}
	if len(known) != len(there) {
		t.Errorf("the doctor looks for %d triggers, there are %d", len(known), len(there))
	}
}
