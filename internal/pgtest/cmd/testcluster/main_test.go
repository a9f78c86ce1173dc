package main

import (
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheCommandGetsAServerThatIsGoneAfterwards(t *testing.T) {
	t.Parallel()
	var out, complaints strings.Builder
	code, err := run([]string{"--", "sh", "-c", `echo "$LEASEHOLD_TEST_CLUSTER_DSN"; exit 7`}, &out, &complaints)
	if err != nil || code != 7 {
		t.Fatalf("code %d, %v, complained %q", code, err, complaints.String())
	}
	dsn := strings.TrimSpace(out.String())
	if !strings.HasPrefix(dsn, "postgres://postgres:") {
		t.Fatalf("command saw %q", dsn)
	}
	if conn, err := pgx.Connect(t.Context(), dsn); err == nil {
		conn.Close(t.Context())
		t.Error("the server still answers")
	}
}

func TestTheExitCodeIsTheCommands(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script string
		code         int
	}{
		{"success", "exit 0", 0},
		{"failure", "exit 7", 7},
		{"killed by a signal", "kill -KILL $$", 137},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if code, err := runCommand(exec.Command("sh", "-c", test.script), nil); err != nil || code != test.code {
				t.Errorf("code %d, %v", code, err)
			}
		})
	}
	t.Run("cannot be started", func(t *testing.T) {
		t.Parallel()
		if code, err := runCommand(exec.Command("/no/such/command"), nil); code != 127 || err == nil {
			t.Errorf("code %d, %v", code, err)
		}
	})
}

func TestAMissingCommandIsAnError(t *testing.T) {
	t.Parallel()
	if code, err := run(nil, io.Discard, io.Discard); code != 2 || err == nil {
		t.Errorf("code %d, %v", code, err)
	}
}
