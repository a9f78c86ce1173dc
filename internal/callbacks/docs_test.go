package callbacks_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/internal/callbacks"
	"github.com/leasehold/leasehold/pkg/protocol"
)

// section is what docs/tools.md says about callbacks.
func section(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(raw), "\n## Tools that call back\n")
	if !found {
		t.Fatal("docs/tools.md has no section on callbacks")
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

// Somebody without Go has nothing but this example to go by.
func TestTheShellInTheDocsCallsBack(t *testing.T) {
	t.Parallel()
	_, rest, found := strings.Cut(section(t), "```sh\n")
	if !found {
		t.Fatal("the section has no shell example")
	}
	script, _, _ := strings.Cut(rest, "```")
	b := setup(t, nil)
	id := b.doubt(tool)
	cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", script)
	cmd.Env = append(os.Environ(), "operation_id="+string(id), "run_id="+about(t, id).RunID.String(),
		"secret_file="+b.secretFile, "leasehold="+b.url)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v (it needs sh, openssl and curl): %s", err, out)
	}
	if !strings.Contains(string(out), `"code":"recorded"`) {
		t.Errorf("it was answered %s", out)
	}
	if got := b.kept(id); got != "evidence succeeded true" {
		t.Errorf("kept %s", got)
	}
	if got := b.Text(`SELECT remote_id || ' ' || result::text FROM leasehold.operation_journal WHERE message IS NOT NULL`); got != `order-77 {"parcels": 2}` {
		t.Errorf("kept %s", got)
	}
	if b.Status(id) != protocol.OperationUnknown {
		t.Errorf("the operation is %s", b.Status(id))
	}
}

func TestTheDocsListEveryAnswer(t *testing.T) {
	t.Parallel()
	listed := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| (\\d{3}) \\| `(\\w+)` \\| .+ \\|$").FindAllStringSubmatch(section(t), -1) {
		listed[m[2]] = m[1]
	}
	for _, code := range callbacks.Outcomes() {
		if want := fmt.Sprint(callbacks.Status(code)); listed[code] != want {
			t.Errorf("%s is %s in the docs, want %s", code, listed[code], want)
		}
		delete(listed, code)
	}
	for code := range listed {
		t.Errorf("the docs list %s, which is no answer", code)
	}
}
