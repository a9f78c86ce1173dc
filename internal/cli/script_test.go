package cli_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leasehold/leasehold/internal/pgtest"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// The command line is a contract: each script in testdata runs the real binary
// against a database of its own and checks output, exit code and audit.
func TestTheCommandLineKeepsItsContract(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "bin")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin+"/", "../../cmd/leasehold")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build leasehold: %v\n%s", err, out)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			tt := env.T().(interface{ FailNow() }).(testing.TB)
			db := pgtest.New(tt)
			env.Setenv("PATH", bin+":"+env.Getenv("PATH"))
			env.Setenv("LEASEHOLD_DATABASE_DSN", db.DSN("operator"))
			env.Setenv("LEASEHOLD_DATABASE_ROLES_MIGRATOR_DSN", db.DSN(""))
			env.Values["db"] = db
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":  exits,
			"doubt":  doubt,
			"held":   held,
			"finish": finish,
		},
	})
}

// exits runs a command and checks its exit code: exits 4 leasehold …
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = "1"
	}
	var exit *exec.ExitError
	if ok := asExit(err, &exit); ok {
		code = exit.ProcessState.String()[len("exit status "):]
	}
	if code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

func asExit(err error, target **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError) //nolint:errorlint // Exec returns it bare
	*target = e
	return ok
}

// open is a store of a role, closed with the script.
func open(ts *testscript.TestScript, role string) *store.Store {
	db := ts.Value("db").(*pgtest.DB)
	st, err := store.Open(context.Background(), store.Config{DSN: db.DSN(role)})
	ts.Check(err)
	ts.Defer(st.Close)
	return st
}

// lease takes the lease of the one queued run.
func lease(ts *testscript.TestScript) store.Acquired {
	got, err := open(ts, "worker").AcquireRuns(context.Background(), store.AcquireRequest{
		Owners: []protocol.Owner{protocol.NewOwner()}, Workflows: []string{"plan"}, Queues: []string{"default"}, TTL: time.Minute,
	})
	ts.Check(err)
	if len(got) != 1 {
		ts.Fatalf("%d runs are queued", len(got))
	}
	return got[0]
}

// plan makes the queued run plan one operation and returns it.
func plan(ts *testscript.TestScript, step protocol.StepID, capabilities string) store.NewOperation {
	a := lease(ts)
	id, err := protocol.NewOperationID(a.Tenant, a.Lease.RunID, step, 1)
	ts.Check(err)
	body, digest, err := protocol.DigestRequest([]byte(`{"to":"ann"}`))
	ts.Check(err)
	op := store.NewOperation{
		ID: id, StepID: step, EffectVersion: 1, Tool: "mail", Digest: digest, Body: body, Capabilities: []byte(capabilities),
	}
	_, err = open(ts, "worker").PlanStep(context.Background(), a.Lease, a.Revision, step, nil,
		[]store.NewOperation{op}, store.WriteOptions{TTL: time.Minute})
	ts.Check(err)
	return op
}

// held makes the queued run plan one operation that needs approval: held NAME
// sets $NAME to its id.
func held(ts *testscript.TestScript, _ bool, args []string) {
	op := plan(ts, "ask", `{"class":"none","max_request_ms":0,"approval":true}`)
	ts.Setenv(args[0], string(op.ID))
}

// doubt makes the queued run plan one operation whose answer is lost:
// doubt NAME sets $NAME to its id.
func doubt(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	op := plan(ts, "notify", `{"class":"none","max_request_ms":0}`)
	d := open(ts, "dispatcher")
	claims, err := d.ClaimOperations(ctx, store.ClaimRequest{
		Owner: protocol.NewOwner(), Slots: map[string]int{"mail": 1}, TTL: 10 * time.Millisecond,
	})
	ts.Check(err)
	out, err := d.CompleteOperations(ctx, []store.OperationResult{{
		Claim: claims[0].Claim, Call: protocol.NewCallID(), Digest: op.Digest, Status: protocol.OperationUnknown,
		Basis: "unknown", Evidence: []byte(`{"error":"connection reset"}`), Attention: "nobody can ask this tool",
	}})
	ts.Check(err)
	ts.Check(out[0].Err)
	ts.Setenv(args[0], string(op.ID))
}

// finish completes the queued run.
func finish(ts *testscript.TestScript, _ bool, _ []string) {
	a := lease(ts)
	_, err := open(ts, "worker").CompleteRun(context.Background(), a.Lease, a.Revision, []byte(`{"ok":true}`), store.WriteOptions{TTL: time.Minute})
	ts.Check(err)
}
