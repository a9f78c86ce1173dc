package sqltool

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/internal/secret"
)

// Config is the config section of a tool of kind sql.
type Config struct {
	// DSN says where the connection string is to be found.
	DSN Secret `yaml:"dsn"`
	// Statement is the effect: one SQL statement with the arguments
	// @operation_id, @run_id, @step_id, @tool, @digest and @request. It returns
	// nothing, or at most one row of one json or jsonb column, the result.
	Statement string `yaml:"statement"`
	// RequireRow: a statement that returns or affects no row is a refusal.
	RequireRow bool `yaml:"require_row"`
	// Rejects lists SQLSTATEs (five characters) and classes of them (two) that
	// refuse the request for good. Any other error leaves it to be sent again.
	Rejects []string `yaml:"rejects"`
	// RemoteID is a JSON Pointer into the result.
	RemoteID string `yaml:"remote_id"`

	Capabilities Promise `yaml:"capabilities"`

	// Timeout bounds one call here, and at the server each statement and each
	// silence within the transaction. So COMMIT can arrive at most one Timeout
	// after the last look at the clock, and take one more.
	Timeout time.Duration `yaml:"timeout"`
	// Connections is how many one process opens at most.
	Connections int32 `yaml:"connections"`
}

// Secret names an environment variable or a file; exactly one of the two.
type Secret struct {
	ValueEnv  string `yaml:"value_env"`
	ValueFile string `yaml:"value_file"`
}

// Promise is what of tools.Capabilities is left to say: class, query, proof of
// absence and the check of the request follow from the record.
type Promise struct {
	// Retention is how long a record is kept at least.
	Retention   time.Duration `yaml:"retention"`
	MaxRequest  time.Duration `yaml:"max_request"`
	ResourceKey string        `yaml:"resource_key"`
	Approval    bool          `yaml:"approval"`
	OnCancel    string        `yaml:"on_cancel"`
}

func defaults() *Config {
	return &Config{
		Rejects:      []string{"23", "P0001"},
		Capabilities: Promise{Retention: 365 * 24 * time.Hour, MaxRequest: time.Minute},
		Timeout:      10 * time.Second,
		Connections:  4,
	}
}

func (p Promise) capabilities() tools.Capabilities {
	return tools.Capabilities{
		Class:           tools.ClassIdempotencyKey,
		Query:           true,
		AbsenceIsProof:  true,
		RejectsMismatch: true,
		RetentionMS:     p.Retention.Milliseconds(),
		MaxRequestMS:    p.MaxRequest.Milliseconds(),
		ResourceKey:     p.ResourceKey,
		Approval:        p.Approval,
		OnCancel:        p.OnCancel,
	}
}

var sqlstate = regexp.MustCompile(`^([0-9A-Z]{2}|[0-9A-Z]{5})$`)

// check opens no secret and no connection.
func check(cfg *Config) (tools.Capabilities, secret.Source, error) {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	dsn, err := secret.From(cfg.DSN.ValueEnv, cfg.DSN.ValueFile)
	if err != nil {
		refuse("dsn: %w", err)
	}
	if strings.TrimSpace(cfg.Statement) == "" {
		refuse("statement: is missing")
	}
	_, used, err := arguments(tools.Request{}).RewriteQuery(context.Background(), nil, cfg.Statement, nil)
	if err != nil {
		refuse("statement: %w", err)
	}
	for _, value := range used {
		if value == nil { // what pgx makes of a name that it does not find
			refuse("statement: its arguments are @operation_id, @run_id, @step_id, @tool, @digest and @request; it names another")
			break
		}
	}
	for i, code := range cfg.Rejects {
		if !sqlstate.MatchString(code) {
			refuse("rejects[%d]: %q is neither a SQLSTATE nor a class of them", i, code)
		}
	}
	if err := protocol.ValidatePointer(cfg.RemoteID); err != nil {
		refuse("remote_id: %w", err)
	}
	if cfg.Timeout < time.Millisecond {
		refuse("timeout: must be at least 1ms, not %s", cfg.Timeout)
	}
	if cfg.Connections < 1 {
		refuse("connections: must be above zero, not %d", cfg.Connections)
	}
	if cfg.Capabilities.MaxRequest < 2*cfg.Timeout {
		refuse("capabilities.max_request: must be at least twice the timeout (%s): so long may a commit still come about", cfg.Timeout)
	}
	if cfg.Capabilities.Retention <= 0 {
		refuse("capabilities.retention: must be above zero")
	}
	caps := cfg.Capabilities.capabilities()
	if err := caps.Validate(); err != nil {
		refuse("capabilities: %w", err)
	}
	return caps, dsn, errors.Join(errs...)
}

// arguments are what a statement may name.
func arguments(req tools.Request) pgx.NamedArgs {
	return pgx.NamedArgs{
		"operation_id": string(req.OperationID), "run_id": req.RunID.String(), "step_id": string(req.StepID),
		"tool": req.Tool, "digest": req.Digest, "request": string(req.Body),
	}
}
