package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzLoad: whatever a file, a variable and a flag hold, loading ends in a
// configuration or in problems that each say where and what. It never panics,
// and a configuration that was accepted can be shown.
func FuzzLoad(f *testing.F) {
	example, err := os.ReadFile("../../config.example.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example, "LEASEHOLD_LOG_LEVEL=debug", "log.format=json", uint8(1))
	for _, s := range []string{
		"", "worker:\n  lease_ttl: 30s\n", "worker: {lease_ttl: 1ns}\n", "worker: 7\n", "worker:\n  lease_ttl: [1]\n",
		"a: &a\n  b: *a\n", "? [x]\n: y\n", "worker: !!binary AA==\n", "---\n---\n", "\t", "log: {level: loud}\n",
		"tools:\n  t:\n    kind: http\n    url: http://127.0.0.1/\n", "tools: [a]\n", "tools:\n  t: {kind: [1]}\n",
		"worker: {<<: {lease_ttl: 1s}}\n", "worker: {lease_ttl: 1s, lease_ttl: 2s}\n", "worker.lease_ttl: 1s\n",
		"database:\n  dsn: postgres://u:p@h/db\n",
	} {
		f.Add([]byte(s), "LEASEHOLD_WORKER_LEASE_TTL=20s", "worker.concurrency=3", uint8(0))
	}
	f.Add([]byte("{}"), "LEASEHOLD_NO_SUCH=1", "no.such=1", uint8(2))
	f.Add([]byte("{}"), "LEASEHOLD_DATABASE_DSN=postgres://u:p@h/db?password=q", "=", uint8(3))
	f.Add([]byte("{}"), "=", "worker", uint8(4))
	f.Fuzz(func(t *testing.T, file []byte, variable, flag string, role uint8) {
		path := filepath.Join(t.TempDir(), "leasehold.yaml")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		// A variable that names another file would leave the input's world.
		if strings.HasPrefix(variable, configVariable) || strings.Contains(variable, "_FILE") {
			return
		}
		o := Options{File: path, Environ: []string{variable}, Set: []string{flag}}
		if roles := []Role{RoleWorker, RoleDispatcher, RoleReconciler}; int(role) <= len(roles) && role > 0 {
			o.Role = roles[role-1]
		}
		cfg, err := Load(o)
		if err != nil {
			wantSomethingNamed(t, err, path)
			return
		}
		for _, s := range cfg.Effective() {
			if s.Key == "" || s.Source == "" {
				t.Fatalf("setting %+v comes from nowhere", s)
			}
		}
		if text, err := cfg.EffectiveTools(); err != nil {
			t.Fatalf("tools cannot be shown: %v %s", err, text)
		}
	})
}

func wantSomethingNamed(t *testing.T, err error, path string) {
	t.Helper()
	var list *Error
	if !errors.As(err, &list) {
		// The file as a whole: it is no YAML.
		if !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Fatalf("error %q does not name the file", err)
		}
		return
	}
	if len(list.Problems) == 0 {
		t.Fatal("refused for no reason")
	}
	for _, p := range list.Problems {
		if p.Key == "" && p.Place == "" || p.Message == "" {
			t.Fatalf("problem %+v names nothing", p)
		}
	}
}
