package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"github.com/leasehold/leasehold/migrations"
)

//go:embed demo.yaml
var configTemplate string

// clientVariable tells a dispatcher the name that it sends to the payments
// service with every request, so that the service's ledger says who called.
const clientVariable = "DEMO_CLIENT"

// writeConfig writes the one file that all processes and the operator's tool
// read.
func (s *stage) writeConfig() error {
	t, err := template.New("demo.yaml").Option("missingkey=error").Parse(configTemplate)
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	s.config = filepath.Join(s.dir, "demo.yaml")
	f, err := os.OpenFile(s.config, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	defer f.Close()
	values := map[string]string{"payments": s.payments.url, "client": clientVariable}
	for _, role := range migrations.Logins() {
		values[role] = s.dsn(role)
	}
	if err := t.Execute(f, values); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return f.Close()
}
