package sqltool

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/internal/secret"
)

// Kind is the value of kind: for a tool of this package.
const Kind = "sql"

// Factory makes adapters of kind sql.
func Factory() tools.Factory {
	return tools.Factory{
		Kind:   Kind,
		Config: func() any { return defaults() },
		Describe: func(cfg any) (tools.Capabilities, error) {
			caps, _, err := check(cfg.(*Config))
			return caps, err
		},
		New: func(name string, cfg any, _ tools.Deps) (tools.Adapter, tools.Capabilities, error) {
			return newAdapter(name, cfg.(*Config))
		},
	}
}

// newAdapter does not connect: a tool whose database is away must not keep the
// process of all the others from starting.
func newAdapter(name string, cfg *Config) (tools.Adapter, tools.Capabilities, error) {
	caps, dsn, err := check(cfg)
	if err != nil {
		return nil, tools.Capabilities{}, err
	}
	a := &adapter{Config: cfg, known: &secret.Redactor{}}
	config, err := a.open(dsn)
	if err != nil {
		return nil, tools.Capabilities{}, fmt.Errorf("dsn: %w", err)
	}
	config.MaxConns = cfg.Connections
	milliseconds := strconv.FormatInt(cfg.Timeout.Milliseconds(), 10)
	params := config.ConnConfig.RuntimeParams
	params["statement_timeout"] = milliseconds
	params["idle_in_transaction_session_timeout"] = milliseconds
	if params["application_name"] == "" {
		params["application_name"] = "leasehold " + name
	}
	// One statement is one statement: the simple protocol, which a connection
	// string may ask for, takes several, and a COMMIT among them.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	// A standby lags, and what it has not heard of yet would pass for absent.
	config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	// A rotated password takes effect without a restart.
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		fresh, err := a.open(dsn)
		if err != nil {
			return err
		}
		c.Password = fresh.ConnConfig.Password
		return nil
	}
	if a.pool, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
		return nil, tools.Capabilities{}, errors.New("dsn: " + a.known.Text(err.Error()))
	}
	return a, caps, nil
}

func (a *adapter) open(dsn secret.Source) (*pgxpool.Config, error) {
	text, err := dsn()
	if err != nil {
		return nil, err
	}
	a.known.Learn(text)
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		// Its words quote the connection string.
		return nil, errors.New("is not a connection string that can be read")
	}
	a.known.Learn(config.ConnConfig.Password)
	return config, nil
}
