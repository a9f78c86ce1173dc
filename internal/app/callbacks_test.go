package app

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/pgtest"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/callback"
)

const callbackSecret = "the secret of a test's remote"

// receiving starts a reconciler that receives callbacks with this login.
func receiving(t *testing.T, db *pgtest.DB, dsn string) (p running, probe, at string) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(callbackSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "leasehold.yaml")
	content := "http: {listen: '127.0.0.1:0'}\n" +
		"database: {dsn: '" + db.DSN("reconciler") + "', roles: {callback: {dsn: '" + dsn + "'}}}\n" +
		"reconciler: {callbacks: {listen: '127.0.0.1:0'}}\n" +
		"tools: [{name: charge, kind: remote, callback: {secrets: [{file: '" + secret + "'}]}}]\n"
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	p = inProcess(t, stock(config.RoleReconciler), "--config", name)
	return p, p.url(t), "http://" + p.log.wait(t, "callbacks are received")["listen"].(string)
}

// call sends a signed callback about an operation that nobody planned.
func call(ctx context.Context, t *testing.T, at string) (status int, body string) {
	t.Helper()
	run, err := protocol.ParseRunID("0190a6e0-7b1c-7c3e-8a53-5f0f3a9d2b11")
	if err != nil {
		t.Fatal(err)
	}
	id, err := protocol.NewOperationID("default", run, "pay", 1)
	if err != nil {
		t.Fatal(err)
	}
	req, err := callback.NewRequest(ctx, at, "charge", []byte(callbackSecret), time.Now(),
		callback.Message{OperationID: id, RunID: run, Outcome: tools.Succeeded})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

func TestAReconcilerReceivesCallbacksThroughALoginOfItsOwn(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	p, probe, at := receiving(t, db, db.DSN("callback"))
	until(t, probe+"/readyz", 200, `"callbacks":"ok"`)
	if status, body := call(t.Context(), t, at); status != 404 || !strings.Contains(body, "unknown_operation") {
		t.Errorf("answered %d %s", status, body)
	}
	var roles string
	if err := db.Pool(t, "").QueryRow(t.Context(), `SELECT string_agg(DISTINCT r.rolname, ',') FROM pg_stat_activity a
	  JOIN pg_auth_members m ON m.member = a.usesysid JOIN pg_roles r ON r.oid = m.roleid
	  WHERE a.application_name = 'leasehold callback' AND r.rolname LIKE 'leasehold%' AND a.datname = $1`, db.Name).Scan(&roles); err != nil || roles != "leasehold_callback" {
		t.Errorf("callbacks are kept as %q, %v", roles, err)
	}
	until(t, probe+"/metrics", 200, `leasehold_callbacks_total{outcome="unknown_operation",tool="charge"} 1`)
	p.signal(syscall.SIGTERM)
	if code := p.exit(t); code != ExitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestWithoutTheCallbacksLoginSendersAreToldToWaitAndTheRestWorks(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	p, probe, at := receiving(t, db, "postgres://nobody@127.0.0.1:1/nowhere")
	until(t, probe+"/readyz", 503, `"database":"ok"`)
	until(t, probe+"/readyz", 503, "connection refused")
	if status, body := call(t.Context(), t, at); status != 503 || !strings.Contains(body, "unavailable") {
		t.Errorf("answered %d %s", status, body)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(t); code != ExitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestAReconcilerReceivesNoCallbacksUnlessAsked(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	p := inProcess(t, stock(config.RoleReconciler), "--config", configFile(t, db.DSN("reconciler")))
	probe := p.url(t)
	until(t, probe+"/readyz", 200, "ready")
	p.log.wait(t, "role started")
	if _, metrics := get(t, probe+"/metrics"); strings.Contains(metrics, "leasehold_callback") {
		t.Error("there are metrics of callbacks")
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(t); code != ExitOK {
		t.Errorf("exit code %d", code)
	}
}
