package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/tools"
)

func TestAListenerForCallbacksNeedsALoginAToolAndItsSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, short := filepath.Join(dir, "good"), filepath.Join(dir, "short")
	for name, text := range map[string]string{good: strings.Repeat("x", 16) + "\n", short: "hunter2"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const base = "database: {dsn: 'postgres://reconciler@db/x', roles: {callback: {dsn: 'postgres://callback@db/x'}}}\n"
	toolWith := func(file string) string {
		return "tools: [{name: ship, kind: fake, callback: {secrets: [{file: " + file + "}]}}]\n"
	}
	const listen = "reconciler: {callbacks: {listen: ':9104'}}\n"
	for _, c := range []struct {
		name, yaml string
		role       Role
		want       string // "" is none
	}{
		{"all there", base + listen + toolWith(good), RoleReconciler, ""},
		{"no listener, nothing needed", "database: {dsn: x}\n" + toolWith("/nowhere"), RoleReconciler, ""},
		{"another process opens no secret", base + listen + toolWith("/nowhere"), RoleWorker, ""},
		{
			"the reconciler's login does not take its place", "database: {dsn: 'postgres://reconciler@db/x'}\n" + listen + toolWith(good), RoleReconciler,
			"database.roles.callback.dsn: no connection string for callbacks",
		},
		{"nobody who could call", base + listen, RoleReconciler, "reconciler.callbacks.listen"},
		{"a secret that is not there", base + listen + toolWith("/nowhere"), RoleReconciler, "callback.secrets[0]: open /nowhere"},
		{"a secret that can be tried", base + listen + toolWith(short), RoleReconciler, "callback.secrets[0]: has 7 bytes; a secret has at least 16"},
		{"no port", base + "reconciler: {callbacks: {listen: everywhere}}\n" + toolWith(good), RoleReconciler, "must be host:port or :port"},
		{
			"a certificate without a key", base + "reconciler: {callbacks: {listen: ':9104', tls_cert_file: a}}\n" + toolWith(good), RoleReconciler,
			"reconciler.callbacks.tls_key_file must both be set",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(Options{File: write(t, c.yaml), Role: c.role})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}

func TestACallbackSectionIsAPromiseThatTheToolCallsBack(t *testing.T) {
	t.Parallel()
	c, err := Load(Options{File: write(t, `
tools:
  - {name: ship, kind: fake, config: {url: x}, callback: {secrets: [{env: SHIP_NOW}, {env: LEASEHOLD_SHIP_OLD}]}}
  - {name: mail, kind: fake, config: {url: x}}
`), Environ: []string{"LEASEHOLD_SHIP_OLD=known"}})
	if err != nil {
		t.Fatal(err) // a variable that a section names is no unknown one
	}
	if w := c.Tools[0].Callback.Window; w != 5*time.Minute {
		t.Errorf("window %s", w)
	}
	reg, err := BuildRegistry(c, []tools.Factory{factory()}, tools.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	promised, err := Promises(c, []tools.Factory{factory()}, tools.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"ship": true, "mail": false} {
		tool, _ := reg.Get(name)
		if tool.Capabilities.CallsBack != want || promised[name].CallsBack != want {
			t.Errorf("%s calls back: %v in the registry, %v promised, want %v", name, tool.Capabilities.CallsBack, promised[name].CallsBack, want)
		}
	}
	text, err := c.EffectiveTools()
	if err != nil || !strings.Contains(text, "env: SHIP_NOW") || !strings.Contains(text, "window: 5m0s") {
		t.Errorf("printed %s, %v", text, err)
	}
}

func TestTheCallbackLoginIsNeverAnother(t *testing.T) {
	t.Parallel()
	d := Database{DSN: NewSecret("postgres://reconciler@db/x")}
	if _, err := d.ResolveDSN(RoleCallback); !errors.Is(err, ErrNoDSN) {
		t.Errorf("got %v", err)
	}
}
