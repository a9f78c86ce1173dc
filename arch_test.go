package leasehold_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/leasehold/leasehold/"

// place is where a package stands in the house.
type place struct {
	// dir is the package's folder; "x/..." also stands for every folder below x.
	dir string
	// may lists what it may import of this module, in the same notation.
	may []string
	// tests lists what its tests may import beyond that and beyond testsAlso.
	tests []string
	// why says what would break if it imported more.
	why string
}

// house is the import rule. Imports flow one way:
//
//	cmd -> pkg/runner -> internal/app -> pkg/{worker,dispatcher,reconciler}
//	    -> pkg/{store,tools,workflow} -> pkg/protocol, pkg/backoff
//
// A package that is not in this list fails the test: where it stands is a
// decision, and this is the place to write it down.
var house = []place{
	{
		dir: "",
		why: "the root holds documentation and these tests, no code",
	},
	{
		dir: "pkg/protocol",
		why: "the words of the protocol must be usable by anybody, with no database or network behind them",
	},
	{
		dir: "pkg/backoff",
		why: "a pause is arithmetic; who waits for what is the caller's business",
	},
	{
		dir: "pkg/store",
		may: []string{"pkg/protocol", "pkg/backoff"},
		why: "the store knows no tool, workflow or role: what they promise reaches it as data, so the database alone decides",
	},
	{
		dir: "pkg/tools",
		may: []string{"pkg/protocol", "pkg/backoff"},
		why: "an adapter has no way to the database: whoever holds a tool's credentials cannot write state",
	},
	{
		dir: "pkg/tools/...",
		may: []string{"pkg/tools", "pkg/tools/...", "pkg/protocol", "pkg/backoff"},
		why: "an adapter has no way to the database: whoever holds a tool's credentials cannot write state",
	},
	{
		dir: "pkg/workflow",
		may: []string{"pkg/protocol"},
		why: "a user's workflow is written against a handle; it never sees the store or an adapter",
	},
	{
		dir: "pkg/workflow/...",
		may: []string{"pkg/workflow", "pkg/protocol"},
		why: "a built-in workflow has no privilege that a user's workflow lacks",
	},
	{
		dir: "pkg/worker",
		may: []string{"pkg/store", "pkg/tools", "pkg/workflow", "pkg/protocol", "pkg/backoff"},
		// Its tests execute real plans.
		tests: []string{"pkg/workflow/plan"},
		why:   "a worker holds no adapter and knows no other role: it has no path to an effect but the ledger",
	},
	{
		dir:   "pkg/dispatcher",
		may:   []string{"pkg/store", "pkg/tools", "pkg/protocol", "pkg/backoff", "internal/sending", "internal/ledgerwriter"},
		tests: []string{"internal/ledgertest", "pkg/tools/httptool"},
		why:   "a dispatcher knows operations and tools; runs, workflows and the other roles are not its business",
	},
	{
		dir:   "pkg/reconciler",
		may:   []string{"pkg/store", "pkg/tools", "pkg/protocol", "pkg/backoff", "internal/sending", "internal/ledgerwriter"},
		tests: []string{"internal/ledgertest", "pkg/tools/httptool"},
		why:   "a reconciler converges facts from the ledger; it never asks another role in process",
	},
	{
		dir: "internal/sending",
		may: []string{"pkg/store", "pkg/tools", "pkg/protocol", "pkg/backoff"},
		why: "one way to send, shared by dispatcher and reconciler; it must not depend on either",
	},
	{
		dir: "internal/ledgerwriter",
		may: []string{"pkg/store", "pkg/tools", "pkg/protocol", "pkg/backoff"},
		why: "one way to keep results until they are stored, shared by dispatcher and reconciler",
	},
	{
		dir: "internal/config",
		may: []string{"pkg/protocol", "pkg/tools", "pkg/tools/..."},
		why: "configuration is read before anything runs, so it depends on nothing that runs",
	},
	{
		dir: "internal/callbacks",
		may: []string{"pkg/store", "pkg/tools", "pkg/tools/callback", "pkg/protocol"},
		// Its tests converge what was called back, as the reconciler does.
		tests: []string{"internal/ledgertest", "internal/config", "pkg/reconciler"},
		why:   "what strangers can reach must be small: it verifies and keeps, and knows no role",
	},
	{
		dir: "internal/telemetry",
		may: []string{"pkg/protocol"},
		why: "what observes must be removable: nothing observed is imported here",
	},
	{
		dir: "internal/localpg",
		why: "it starts a PostgreSQL for anybody; what is put into it is the caller's business",
	},
	{
		dir: "migrations",
		may: []string{"pkg/protocol"},
		why: "the schema is applied before any of our code can talk to it",
	},
	{
		dir: "internal/app",
		may: []string{
			"pkg/worker", "pkg/dispatcher", "pkg/reconciler", "pkg/store", "pkg/tools", "pkg/tools/...",
			"pkg/workflow", "pkg/workflow/...", "pkg/protocol", "pkg/backoff",
			"internal/config", "internal/telemetry", "internal/callbacks", "migrations",
		},
		why: "boot order is here and only here; it is started by programs and knows none",
	},
	{
		dir: "pkg/runner",
		may: []string{"internal/app", "pkg/tools", "pkg/tools/...", "pkg/workflow", "pkg/workflow/..."},
		why: "it is what a user's own main calls: it adds the user's parts to ours and starts them, no more",
	},
	{
		dir: "internal/cli",
		may: []string{
			"pkg/...", "internal/app", "internal/config", "internal/telemetry", "internal/localpg", "migrations",
		},
		why: "the operator's tool stands on the same libraries as the processes, beside them",
	},
	{
		dir: "internal/cli/...",
		may: []string{
			"pkg/...", "internal/app", "internal/config", "internal/telemetry", "internal/localpg", "migrations",
			"internal/cli", "internal/cli/...",
		},
		why: "the operator's tool stands on the same libraries as the processes, beside them",
	},
	{
		dir: "internal/ledgertest",
		may: []string{"internal/pgtest", "pkg/store", "pkg/tools", "pkg/tools/...", "pkg/protocol"},
		why: "a scene for the roles that call tools; a role that it knew could not use it in its own tests",
	},
	{
		dir: "internal/pgtest",
		may: []string{"internal/localpg", "migrations", "pkg/protocol", "pkg/store"},
		why: "a fixture offers a database; a role that it knew could not use it in its own tests",
	},
	{
		dir: "internal/pgtest/...",
		may: []string{"internal/pgtest", "internal/localpg", "migrations"},
		why: "a fixture offers a database; a role that it knew could not use it in its own tests",
	},
	{
		dir: "cmd/...",
		may: []string{"pkg/...", "internal/app", "internal/cli"},
		why: "a main links parts and starts them: what it needs beyond that, a user's own main would miss",
	},
	{
		dir: "examples/payments",
		why: "it plays somebody else's service: the comparison of the two ledgers is worth something only if they share no code",
	},
	{
		dir: "examples/...",
		may: []string{"pkg/...", "internal/localpg", "migrations"},
		// The files that it shows are loaded as strictly as the programs do.
		tests: []string{"internal/config"},
		why:   "an example uses what a user can use, and a local database",
	},
	{
		dir: "test/lab",
		may: []string{"pkg/store", "pkg/tools", "pkg/protocol"},
		why: "it starts programs and links none of them, nor a database: a program may use it as well as a test",
	},
	{
		dir: "test/...",
		may: []string{"pkg/...", "internal/...", "migrations", "test/..."},
		why: "whole-system tests start programs as processes, they do not link them",
	},
}

// testsAlso is what any package's tests may import beyond the package's own
// list.
var testsAlso = []string{
	"internal/pgtest", "internal/localpg", "migrations", "pkg/protocol", "pkg/store", "pkg/tools/toolstest",
}

// confined modules and packages may be imported by the listed folders only.
// Tests may look at rows behind the store's back, so they are not confined.
var confined = []struct {
	path string
	to   []string
	why  string
}{
	{
		"github.com/jackc/pgx",
		[]string{
			"pkg/store", "migrations", "internal/localpg", "internal/pgtest", "internal/pgtest/...", "internal/app",
			"pkg/tools/sqltool",   // its effects are in somebody else's database, never in the ledger
			"internal/ledgertest", // takes the database away
			"internal/telemetry",  // reads the pool's counters
			"test/lab",            // looks at the rows from outside
			"test/chaos",          // looks at the rows from outside, and ends their sessions
			"examples/demo",       // compares the ledgers from outside, as an auditor would
		},
		"pgx types stop in the store: only there is it known which errors mean that a write may have happened",
	},
	{
		"database/sql",
		[]string{"migrations"},
		"only the migration library needs it; it retries on a bad connection, which no write of ours may",
	},
	{
		"github.com/pressly/goose",
		[]string{"migrations"},
		"the schema has one way in",
	},
	{
		"github.com/spf13/viper",
		[]string{"internal/config"},
		"used plainly it ignores environment variables, lower-cases keys and reads 30 as 30ns; one package knows how not to",
	},
	{
		"github.com/spf13/cobra",
		[]string{"internal/cli", "internal/cli/...", "internal/app", "cmd/..."},
		"commands are a face of the programs; a library has none",
	},
	{
		"github.com/fergusstrange/embedded-postgres",
		[]string{"internal/localpg"},
		"a production process must not be able to download a database server",
	},
	{
		"github.com/sethvargo/go-retry",
		[]string{"pkg/store", "migrations"},
		"a retry is safe only where it is known that nothing was written",
	},
}

// denied are direct imports of the standard library that would break a
// promise of the folder.
var denied = []struct {
	dir, path, why string
}{
	{"pkg/protocol", "net", "no network behind the words of the protocol"},
	{"pkg/protocol", "os", "the protocol reads no file and no environment"},
	{"pkg/workflow", "net/http", "a worker has no path to an effect but the ledger"},
	{"pkg/workflow/...", "net/http", "a worker has no path to an effect but the ledger"},
	{"pkg/worker", "net/http", "a worker has no path to an effect but the ledger"},
	{"pkg/store", "net/http", "no network wait beside a transaction"},
}

// hidden are packages that must not be reached even through others.
var hidden = []struct {
	dir, path, why string
}{
	{"pkg/protocol", "net/http", "no network behind the words of the protocol"},
	{"pkg/protocol", "database/sql", "no database behind the words of the protocol"},
	{"pkg/tools", "github.com/jackc/pgx/v5", "an adapter has no way to the database"},
	{"pkg/workflow", "github.com/jackc/pgx/v5", "a workflow has no way to the database but its handle"},
}

// listed is what `go list -json` says of one package.
type listed struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// dir is the package's folder within the module.
func (p listed) dir() string { return relative(p.ImportPath) }

func TestImportsFlowOneWay(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		for _, fault := range importFaults(p) {
			t.Error(fault)
		}
	}
}

// importFaults judges one package by all of the above.
func importFaults(p listed) []string {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }

	at, known := find(p.dir())
	if !known {
		fault("%s has no place in the house; add it to the list in arch_test.go, with what it may import and why no more", p.dir())
		return faults
	}
	for _, path := range p.Imports {
		if ours(path) && !matches(relative(path), at.may...) {
			fault("%s imports %s: %s", p.dir(), relative(path), at.why)
		}
		for _, c := range confined {
			if under(path, c.path) && !matches(p.dir(), c.to...) {
				fault("%s imports %s: %s", p.dir(), path, c.why)
			}
		}
		for _, d := range denied {
			if matches(p.dir(), d.dir) && path == d.path {
				fault("%s imports %s: %s", p.dir(), path, d.why)
			}
		}
	}
	for _, path := range append(slices.Clone(p.TestImports), p.XTestImports...) {
		allowed := slices.Concat([]string{p.dir()}, at.may, at.tests, testsAlso)
		if ours(path) && !matches(relative(path), allowed...) {
			fault("the tests of %s import %s: %s", p.dir(), relative(path), at.why)
		}
	}
	for _, h := range hidden {
		if p.dir() == h.dir && slices.Contains(p.Deps, h.path) {
			fault("%s reaches %s: %s", p.dir(), h.path, h.why)
		}
	}
	return faults
}

// find returns the place of dir: the exact one, or else the closest "x/...".
func find(dir string) (place, bool) {
	var best place
	found := false
	for _, p := range house {
		if p.dir == dir {
			return p, true
		}
		if matches(dir, p.dir) && len(p.dir) > len(best.dir) {
			best, found = p, true
		}
	}
	return best, found
}

func matches(dir string, patterns ...string) bool {
	for _, pattern := range patterns {
		parent, isTree := strings.CutSuffix(pattern, "/...")
		if dir == pattern || isTree && strings.HasPrefix(dir, parent+"/") {
			return true
		}
	}
	return false
}

func under(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

func ours(path string) bool { return strings.HasPrefix(path+"/", module) }

func relative(path string) string {
	return strings.TrimSuffix(strings.TrimPrefix(path+"/", module), "/")
}

// list asks the go command, which knows build tags and generated files. -e: a
// package that does not compile at the moment still has imports to judge.
func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e",
		"-json=ImportPath,Imports,TestImports,XTestImports,Deps", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("decode go list: %v", err)
		}
		packages = append(packages, p)
	}
	if len(packages) == 0 {
		t.Fatal("go list names no package")
	}
	return packages
}

// A rule that catches nothing looks exactly like a rule that is kept.
func TestImportRuleCatchesEachKindOfFault(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		p    listed
		want string
	}{
		{"unplaced package", listed{ImportPath: module + "pkg/util"}, "pkg/util has no place"},
		{"unplaced folder below a placed one", listed{ImportPath: module + "pkg/store/cache"}, "pkg/store/cache has no place"},
		{"a role knows another", listed{ImportPath: module + "pkg/worker", Imports: []string{module + "pkg/dispatcher"}}, "pkg/worker imports pkg/dispatcher"},
		{"a role's test knows another", listed{ImportPath: module + "pkg/worker", XTestImports: []string{module + "pkg/dispatcher"}}, "the tests of pkg/worker import"},
		{"a worker holds an adapter", listed{ImportPath: module + "pkg/worker", Imports: []string{module + "pkg/tools/httptool"}}, "pkg/worker imports pkg/tools/httptool"},
		{"store knows tools", listed{ImportPath: module + "pkg/store", Imports: []string{module + "pkg/tools"}}, "pkg/store imports pkg/tools"},
		{"tools know store", listed{ImportPath: module + "pkg/tools/httptool", Imports: []string{module + "pkg/store"}}, "pkg/tools/httptool imports pkg/store"},
		{"a library knows a program", listed{ImportPath: module + "internal/app", Imports: []string{module + "cmd/worker"}}, "internal/app imports cmd/worker"},
		{"the other ledger shares code", listed{ImportPath: module + "examples/payments", Imports: []string{module + "pkg/protocol"}}, "examples/payments imports pkg/protocol"},
		{"pgx outside the store", listed{ImportPath: module + "pkg/worker", Imports: []string{"github.com/jackc/pgx/v5/pgconn"}}, "pgx types stop in the store"},
		{"viper outside config", listed{ImportPath: module + "internal/cli", Imports: []string{"github.com/spf13/viper"}}, "ignores environment variables"},
		{"network in the protocol", listed{ImportPath: module + "pkg/protocol", Imports: []string{"net"}}, "no network"},
		{"database behind the protocol", listed{ImportPath: module + "pkg/protocol", Deps: []string{"database/sql"}}, "pkg/protocol reaches database/sql"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := strings.Join(importFaults(tt.p), "\n")
			if !strings.Contains(got, tt.want) {
				t.Errorf("faults %q, want one with %q", got, tt.want)
			}
		})
	}
}
