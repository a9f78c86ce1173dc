package sqltool_test

import (
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/sqltool"
)

func blocks(t *testing.T, language string) (list []string) {
	t.Helper()
	raw, err := os.ReadFile("../../../docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(raw), "```"+language+"\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		list = append(list, block)
	}
	return list
}

func TestTheDocsStatementAndTablesWork(t *testing.T) {
	t.Parallel()
	sql := blocks(t, "sql")
	if len(sql) != 2 || sql[0] != sqltool.DDL {
		t.Fatalf("the docs have %d blocks of SQL, the first of which must be the table of records", len(sql))
	}
	db := newDatabase(t)
	seen := 0
	for i, block := range blocks(t, "yaml") {
		var file struct {
			Tools []struct {
				Name, Kind string
				Slots      int
				Config     yaml.Node
			}
		}
		if err := yaml.Unmarshal([]byte(block), &file); err != nil {
			t.Fatalf("block %d: %v", i, err)
		}
		for _, made := range file.Tools {
			if made.Kind != sqltool.Kind {
				continue
			}
			section, err := yaml.Marshal(&made.Config)
			if err != nil {
				t.Fatal(err)
			}
			cfg := decode(t, string(section))
			if _, err := sqltool.Factory().Describe(cfg); err != nil {
				t.Errorf("tool %s: %v", made.Name, err)
			}
			tool := db.tool(t, cfg.Statement, func(c *sqltool.Config) { c.RequireRow = cfg.RequireRow })
			mustBe(t, tool.Call(t.Context(), request(`{"account":"nobody","amount":1}`)), tools.Rejected)
			mustBe(t, tool.Call(t.Context(), request(one)), tools.Succeeded)
			seen++
		}
	}
	if seen == 0 || db.number(t, debits) != 1 {
		t.Errorf("%d tools in the docs, debited %d", seen, db.number(t, debits))
	}
}

func TestTheDocsHighWaterRefusesWhatIsOlder(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	db.do(t, blocks(t, "sql")[1])
	const ledger, first, second = "'00000000-0000-4000-8000-000000000001'", "'00000000-0000-4000-8000-00000000000a'", "'00000000-0000-4000-8000-00000000000b'"
	for _, step := range []struct {
		name, args string
		refused    bool
	}{
		{"the first", ledger + "," + first + ",1", false},
		{"a newer epoch", ledger + "," + first + ",3", false},
		{"the same epoch again", ledger + "," + first + ",3", false},
		{"an older epoch", ledger + "," + first + ",2", true},
		{"the next run begins at 1", ledger + "," + second + ",1", false},
		{"the run before it", ledger + "," + first + ",9", true},
		{"another ledger", second + "," + second + ",9", true},
	} {
		_, err := db.Exec(t.Context(), `SELECT advance_high_water('vm-1',`+step.args+`)`)
		if (err != nil) != step.refused {
			t.Errorf("%s: %v", step.name, err)
		}
	}
}
