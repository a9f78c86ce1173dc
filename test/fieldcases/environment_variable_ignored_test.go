package fieldcases_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"

	"github.com/leasehold/leasehold/test/lab"
)

// spf13/viper#1236 (report, 2021-10-13), spf13/viper#761, spf13/viper#584: a value
// that was set by its environment variable alone could be read key by key, and
// was not there when the configuration was decoded into a struct, since that
// walks the keys of the file and of the defaults. The service started with a
// zero. An empty line in the file "fixed" it.
//
// The table over every leaf and every pair of layers is in internal/config. Here
// whole programs start with it.

// setting is a line of `leasehold config print -o json`.
type setting struct {
	Key, Value, Source, Env string
}

func (w *world) settings(environ []string, args ...string) map[string]setting {
	w.t.Helper()
	a := w.Leasehold(environ, append([]string{"config", "print", "-o", "json"}, args...)...)
	var printed struct{ Settings []setting }
	if err := json.Unmarshal([]byte(a.Out), &printed); err != nil || a.Code != 0 {
		w.t.Fatalf("config print: %v: %+v", err, a)
	}
	out := map[string]setting{}
	for _, s := range printed.Settings {
		out[s.Key] = s
	}
	return out
}

// another returns a legal value that is not the default: as the variable has it
// and as it is printed.
func (s setting) another() (text, printed string) {
	switch {
	case strings.HasSuffix(s.Key, "dsn"):
		return "postgres://host/" + s.Key, "postgres://host/" + s.Key
	case strings.HasSuffix(s.Key, "_file"), strings.HasSuffix(s.Key, ".listen"):
		return "/run/" + s.Key + ":1", "/run/" + s.Key + ":1"
	case s.Key == "log.level":
		return "warn", "warn"
	case s.Key == "log.format":
		return "text", "text"
	case s.Value == "false":
		return "true", "true"
	case strings.HasPrefix(s.Value, "["):
		return "one,two", "[one, two]"
	}
	if d, err := time.ParseDuration(s.Value); err == nil && strings.TrimLeft(s.Value, "0123456789") != "" {
		d -= time.Millisecond
		return d.String(), d.String()
	}
	var n int
	if _, err := fmt.Sscanf(s.Value, "%d", &n); err == nil {
		n = max(n-1, 7-n)
		return fmt.Sprint(n), fmt.Sprint(n)
	}
	panic("no value for " + s.Key)
}

func TestEveryVariableIsInForceWithoutAFileAndWithAFileThatLacksItsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	defaults := w.settings(nil)
	if len(defaults) < 40 {
		t.Fatalf("only %d settings are printed", len(defaults))
	}
	lacking := file(t, "worker: {}\ntools: []\n")
	full := file(t, lab.BaseSettings)
	// A text and the file that holds it must not both be set.
	for _, leftOut := range []string{"dsn", "dsn_file"} {
		var environ []string
		want := map[string]string{}
		for key, s := range defaults {
			if !strings.HasSuffix(key, "."+leftOut) {
				text, printed := s.another()
				environ, want[key] = append(environ, s.Env+"="+text), printed
			}
		}
		for name, args := range map[string][]string{
			"no file": nil, "a file without the keys": {"--config", lacking}, "a file with other values": {"--config", full},
		} {
			for key, got := range w.settings(environ, args...) {
				if printed, set := want[key]; set && (got.Value != printed || got.Source != "env") {
					t.Errorf("%s, %s: %q from %s, want %q from env", name, key, got.Value, got.Source, printed)
				}
			}
		}
	}
}

func file(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "leasehold.yaml")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestAProcessWorksByItsVariables(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t), lab.NewTool(t)
	w.AddTool("pay", f, tools.ClassOperationQuery, nil)
	onlyTools := strings.Replace(w.read(w.ConfigFile()), lab.BaseSettings, "", 1)
	if strings.Contains(onlyTools, "claim_ttl") {
		t.Fatal("the file does not lack the key")
	}
	leases := w.WatchLeases()
	worker := w.Start("worker", lab.WithFile(file(t, onlyTools)), lab.Env("LEASEHOLD_HTTP_LISTEN=127.0.0.1:0"),
		lab.Env("LEASEHOLD_WORKER_LEASE_TTL=17s"), lab.Env("LEASEHOLD_WORKER_SLOTS=3"))
	w.Start("dispatcher", lab.WithFile(file(t, onlyTools)), lab.Env("LEASEHOLD_HTTP_LISTEN=127.0.0.1:0"),
		lab.Env("LEASEHOLD_DISPATCHER_CLAIM_TTL=57s"))
	reconciler := w.Start("reconciler", lab.WithFile(""), lab.Env("LEASEHOLD_HTTP_LISTEN=127.0.0.1:0"), lab.Env("LEASEHOLD_RECONCILER_INTERVAL=77ms"))

	run := w.Submit(store.NewTask{Input: lab.Plan(lab.Step{ID: "s", Tool: "pay"})})
	w.UntilRun(run, protocol.RunSucceeded)
	if got := w.Text(`SELECT (last_send_until - first_send_at)::text FROM leasehold.tool_operations`); got != "00:00:57" {
		t.Errorf("the claim lasted %s", got)
	}
	if n := worker.Metric("leasehold_worker_slots"); n != 3 {
		t.Errorf("the worker has %v slots", n)
	}
	if n := leases.Outside(17*time.Second, 3*time.Second); n != 0 || leases.Written() == 0 {
		t.Errorf("of %d leases %d were not for 17 s", leases.Written(), n)
	}
	// Every 77 ms and not every 2 s.
	longest, samples := 0.0, 0
	w.Until("the reconciler was watched for a while", func() bool {
		longest = max(longest, reconciler.Metric(`leasehold_loop_silent_seconds{loop="expire claims"}`))
		samples++
		return samples > 60
	})
	if longest > 1.2 {
		t.Errorf("no claims were expired for %.1f s", longest)
	}
}

func (w *world) read(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

func TestAMisspeltKeyOrVariableStopsTheStartAndIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		name    string
		options []lab.Option
		want    []string
	}{
		{"key", []lab.Option{lab.WithFile(file(t, "dispatcher: {claim_tll: 5s}\n"))}, []string{"claim_tll", "claim_ttl", ":1"}},
		{"variable", []lab.Option{lab.WithFile(""), lab.Env("LEASEHOLD_DISPATCHER_CLAIM_TLL=5s")}, []string{"LEASEHOLD_DISPATCHER_CLAIM_TLL", "LEASEHOLD_DISPATCHER_CLAIM_TTL"}},
		{"no unit", []lab.Option{lab.WithFile(""), lab.Env("LEASEHOLD_DISPATCHER_CLAIM_TTL=5")}, []string{"LEASEHOLD_DISPATCHER_CLAIM_TTL", "unit"}},
	} {
		for _, prog := range []string{"worker", "dispatcher", "reconciler"} {
			p := w.Start(prog, append(c.options, lab.Named(prog+" with a misspelt "+c.name))...).MayEnd()
			if code := p.Wait(); code != 2 {
				t.Errorf("%s: exit code %d", p.Name, code)
			}
			if p.Count(c.want...) == 0 {
				t.Errorf("%s does not name %q:\n%s", p.Name, c.want, strings.Join(p.Log(), "\n"))
			}
		}
	}
}
