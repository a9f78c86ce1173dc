package sqltool_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/jackc/pgx/v5"
	"go.yaml.in/yaml/v3"

	"github.com/leasehold/leasehold/internal/pgtest"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/sqltool"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const limit = 20 * time.Second

// decode reads a config section as the loader does: strictly, by yaml tags.
func decode(t *testing.T, section string) *sqltool.Config {
	t.Helper()
	raw := map[string]any{}
	if err := yaml.Unmarshal([]byte(section), &raw); err != nil {
		t.Fatalf("the test's YAML: %v", err)
	}
	cfg := sqltool.Factory().Config()
	d, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		TagName: "yaml", SquashTagOption: "inline", ErrorUnused: true, Result: cfg,
		DecodeHook: func(_, to reflect.Type, v any) (any, error) {
			if s, ok := v.(string); ok && to == reflect.TypeFor[time.Duration]() {
				return time.ParseDuration(s)
			}
			return v, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Decode(raw); err != nil {
		t.Fatalf("the test's configuration: %v", err)
	}
	return cfg.(*sqltool.Config)
}

// database is somebody's PostgreSQL with accounts in it, and the tool's view.
type database struct {
	*pgx.Conn

	dsn string
}

const debit = `UPDATE accounts SET balance = balance - (@request::jsonb->>'amount')::numeric
	WHERE id = @request::jsonb->>'account' RETURNING jsonb_build_object('balance', balance, 'id', id)`

func newDatabase(t *testing.T) database {
	t.Helper()
	db := pgtest.New(t)
	d := database{db.Conn(t, ""), db.DSN("")}
	d.do(t, sqltool.DDL)
	d.do(t, `CREATE TABLE accounts (id text PRIMARY KEY, balance numeric NOT NULL CHECK (balance >= 0))`)
	d.do(t, `INSERT INTO accounts VALUES ('a', 12345678901234567890.5)`)
	return d
}

func (d database) do(t *testing.T, sql string) {
	t.Helper()
	if _, err := d.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (d database) number(t *testing.T, sql string) (n int64) {
	t.Helper()
	if err := d.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

const (
	debits  = `SELECT (12345678901234567890.5 - balance)::bigint FROM accounts`
	records = `SELECT count(*) FROM leasehold_effects`
)

// tool is a tool with one statement in d.
func (d database) tool(t *testing.T, statement string, change func(*sqltool.Config)) *both {
	t.Helper()
	return toolAt(t, d.dsn, statement, change)
}

type both struct {
	tools.Adapter
	tools.Querier
}

func toolAt(t *testing.T, dsn, statement string, change func(*sqltool.Config)) *both {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(path, []byte(dsn+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := sqltool.Factory().Config().(*sqltool.Config)
	cfg.DSN.ValueFile, cfg.Statement, cfg.RemoteID = path, statement, "/id"
	if change != nil {
		change(cfg)
	}
	adapter, caps, err := sqltool.Factory().New("test.tool", cfg, tools.Deps{})
	if err != nil {
		t.Fatalf("make the tool: %v", err)
	}
	t.Cleanup(func() { _ = adapter.(io.Closer).Close() })
	if _, err := tools.NewRegistry(tools.Tool{Name: "test.tool", Kind: sqltool.Kind, Slots: 1, Adapter: adapter, Capabilities: caps}); err != nil {
		t.Fatalf("register the tool: %v", err)
	}
	return &both{adapter, adapter.(tools.Querier)}
}

const one = `{"account":"a","amount":1}`

func request(body string) tools.Request {
	id, err := protocol.ParseRunID("0197f5d2-7d8e-4a43-9d2b-1f2c3d4e5f60")
	if err != nil {
		panic(err)
	}
	return tools.Request{
		OperationID: "acme/0197f5d2-7d8e-4a43-9d2b-1f2c3d4e5f60/charge/1", RunID: id, StepID: "charge", Tool: "test.tool",
		Body: json.RawMessage(body), Digest: protocol.Digest([]byte(body)), Attempt: 1,
	}
}

func mustBe(t *testing.T, o tools.Outcome, want tools.Kind) {
	t.Helper()
	if o.Kind != want {
		t.Fatalf("outcome %s (%s; %s), want %s", o.Kind, o.Detail, o.Answer, want)
	}
	if o.Detail == "" || strings.Contains(o.Detail, "\n") {
		t.Errorf("detail %q is not one line for a person", o.Detail)
	}
}

// mustBeIn is mustBe for other goroutines than the test's.
func mustBeIn(t *testing.T, o tools.Outcome, want tools.Kind) {
	t.Helper()
	if o.Kind != want {
		t.Errorf("outcome %s (%s), want %s", o.Kind, o.Detail, want)
	}
}

// until waits for a condition.
func until(t *testing.T, what string, met func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(limit); !met(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("never: %s", what)
		}
	}
}
