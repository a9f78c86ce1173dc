// Package config loads the one YAML file that every Leasehold process reads.
//
// It promises that a value comes from where `config print` says it came from
// (flag, environment, file, default, in this order of precedence), that a name
// it does not know is an error with the nearest name it does, that every
// mistake is reported at once with its place, and that no secret is ever
// printed.
//
// It does not reload: a changed file takes effect at the next start.
package config

import "time"

// Config is the whole configuration. The comment of each field is its entry in
// docs/configuration.md. A field of a section is one key of the file, one
// environment variable and one -set flag; Tools alone is read from the file
// only, since a list has no stable names.
type Config struct {
	Database   Database   `yaml:"database"`
	Worker     Worker     `yaml:"worker"`
	Dispatcher Dispatcher `yaml:"dispatcher"`
	Reconciler Reconciler `yaml:"reconciler"`
	HTTP       HTTP       `yaml:"http"`
	Log        Log        `yaml:"log"`
	Tools      []Tool     `yaml:"tools"`

	sources map[string]Source
	places  map[string]string
}

// Database says how to reach PostgreSQL. Each process logs in with the role
// that its work needs and no other. In a cluster each pod gets its own dsn; on
// a machine that runs everything from one file, roles says which is whose.
type Database struct {
	// Connection string of the role that this process logs in with, as a URL or
	// as keyword=value pairs. It must reach the primary.
	DSN Secret `yaml:"dsn"`
	// File that holds the connection string instead, such as a mounted secret.
	DSNFile string `yaml:"dsn_file"`
	// Most connections this process keeps in its pool. Lease renewal has its
	// own two beside it, so that a busy pool cannot cost a lease.
	MaxConns int `yaml:"max_conns"`
	// How long one attempt to reach the database may take at start. Attempts
	// are repeated for ever: a process that waits is not ready, and says why.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// Connection strings by role; each is used in place of dsn by the process
	// of that role.
	Roles DatabaseRoles `yaml:"roles"`
}

// DatabaseRoles holds the connection strings of one file that serves several
// processes.
type DatabaseRoles struct {
	// Used by worker.
	Worker RoleDSN `yaml:"worker"`
	// Used by dispatcher.
	Dispatcher RoleDSN `yaml:"dispatcher"`
	// Used by reconciler.
	Reconciler RoleDSN `yaml:"reconciler"`
	// Used by reconciler for what tools call back, which may do nothing but keep
	// it. Needed where reconciler.callbacks.listen is set; database.dsn does not
	// take its place.
	Callback RoleDSN `yaml:"callback"`
	// Used by the commands of `leasehold` that read or decide.
	Operator RoleDSN `yaml:"operator"`
	// Used by `leasehold migrate`. It must not go through a transaction-mode
	// pooler: the migration lock belongs to a session.
	Migrator RoleDSN `yaml:"migrator"`
}

// RoleDSN is one role's connection string.
type RoleDSN struct {
	// Connection string of this role.
	DSN Secret `yaml:"dsn"`
	// File that holds it instead.
	DSNFile string `yaml:"dsn_file"`
}

// Worker configures the process that executes runs.
type Worker struct {
	// How many runs this process executes at once. A parked run takes no slot.
	Slots int `yaml:"slots"`
	// Names of the workflows this process takes; empty means every workflow
	// that is linked into it. Runs of other workflows are left for other
	// workers.
	Workflows []string `yaml:"workflows"`
	// Queues this process takes runs from.
	Queues []string `yaml:"queues"`
	// How often it looks for runs when nothing has hinted at one. Hints only
	// shorten the wait; polling alone is enough.
	PollInterval time.Duration `yaml:"poll_interval"`
	// How long a lease lives without a renewal: the longest a run stands still
	// after its worker has died. Longer rides out longer pauses, shorter takes
	// over sooner.
	LeaseTTL time.Duration `yaml:"lease_ttl"`
	// How often leases are renewed. 10,000 running runs renewed every 5s write
	// 2,000 rows a second.
	HeartbeatInterval time.Duration `yaml:"heartbeat_interval"`
	// How long one renewal may take before it counts as unconfirmed: no step
	// starts until it is confirmed.
	HeartbeatTimeout time.Duration `yaml:"heartbeat_timeout"`
	// How long before the end of its lease a worker stops trusting it: covers
	// scheduling delays, and no clock difference (no two clocks are compared).
	TrustMargin time.Duration `yaml:"trust_margin"`
	// How long a run waits in memory, holding its slot, before it is parked in
	// the database.
	ParkAfter time.Duration `yaml:"park_after"`
	// How long running steps may go on after a stop signal before they are
	// cancelled; their runs are handed back either way.
	DrainTimeout time.Duration `yaml:"drain_timeout"`
	// First pause of a run whose attempt failed; it doubles with each attempt,
	// with jitter.
	RetryBase time.Duration `yaml:"retry_base"`
	// Longest pause between two attempts of a run.
	RetryCap time.Duration `yaml:"retry_cap"`
}

// Dispatcher configures the process that calls tools.
type Dispatcher struct {
	// How long one claim lives: after it, an operation without an answer is in
	// doubt. No request is sent or awaited beyond claim_ttl - send_margin.
	ClaimTTL time.Duration `yaml:"claim_ttl"`
	// Most requests in flight in this process, over all tools; 0 means the sum
	// of the tools' own slots.
	Slots int `yaml:"slots"`
	// Most operations claimed by one call.
	ClaimBatch int `yaml:"claim_batch"`
	// How often it looks for operations when nothing has hinted at one.
	PollInterval time.Duration `yaml:"poll_interval"`
	// How long before the end of its claim a request must be over, so that its
	// answer can still be stored under the claim.
	SendMargin time.Duration `yaml:"send_margin"`
	// Longest pause of a tool that cannot be reached; a pause that the tool
	// itself asks for is kept for up to an hour.
	PauseCap time.Duration `yaml:"pause_cap"`
	// How long requests in flight may go on after a stop signal. What has no
	// answer by then is in doubt.
	DrainTimeout time.Duration `yaml:"drain_timeout"`
}

// Reconciler configures the process that settles what others left open.
type Reconciler struct {
	// How often it sweeps: expired claims, expired leases, doubts that are due.
	Interval time.Duration `yaml:"interval"`
	// Most rows taken up by one call.
	Batch int `yaml:"batch"`
	// How long a doubt stays taken up by this process while it asks the remote.
	ClaimTTL time.Duration `yaml:"claim_ttl"`
	// First pause after a doubt could not be settled; it doubles from there,
	// with jitter.
	BackoffBase time.Duration `yaml:"backoff_base"`
	// Longest pause between two attempts to settle a doubt.
	BackoffCap time.Duration `yaml:"backoff_cap"`
	// How long a frozen client may hold a transaction open before its
	// connection is ended.
	WatchdogAfter time.Duration `yaml:"watchdog_after"`
	// How often the ledger is measured for metrics: counts and ages of what is
	// in doubt.
	StatsInterval time.Duration `yaml:"stats_interval"`
	// How long queries and re-sends in flight may go on after a stop signal.
	DrainTimeout time.Duration `yaml:"drain_timeout"`
	// Where tools that answer later call back (POST /callbacks/{operation_id}).
	Callbacks Callbacks `yaml:"callbacks"`
}

// Callbacks configures the listener for tools that call back. Each tool that may
// has a callback section.
type Callbacks struct {
	// Address it listens on, apart from the admin server's; empty means that no
	// tool can call back. In a container use ":9104".
	Listen string `yaml:"listen"`
	// File with its certificate, in PEM, the chain after it. Without one it
	// speaks plain HTTP, for a proxy that ends TLS. Read for each connection, so
	// a renewed certificate needs no restart.
	TLSCertFile string `yaml:"tls_cert_file"`
	// File with the certificate's private key, in PEM.
	TLSKeyFile string `yaml:"tls_key_file"`
}

// HTTP configures the admin server: /livez, /readyz and /metrics. It shows no
// payload and takes no command, and it has no login.
type HTTP struct {
	// Address it listens on; empty means 127.0.0.1 and port 9101 (worker), 9102
	// (dispatcher) or 9103 (reconciler). In a container use ":9101", since
	// probes come from outside.
	Listen string `yaml:"listen"`
	// Serve /debug/pprof too. Profiles can show memory contents: only where
	// the port is not reachable by strangers.
	Pprof bool `yaml:"pprof"`
}

// Log configures the log, one line a record on standard error.
type Log struct {
	// Least level that is written: debug, info, warn or error.
	Level string `yaml:"level"`
	// "json" for machines, "text" for a terminal.
	Format string `yaml:"format"`
}

// Default returns the configuration of an empty file. It is the only place
// that knows a default.
func Default() Config {
	return Config{
		Database: Database{
			MaxConns:       10,
			ConnectTimeout: 10 * time.Second,
		},
		Worker: Worker{
			Slots:             100,
			Workflows:         []string{},
			Queues:            []string{"default"},
			PollInterval:      time.Second,
			LeaseTTL:          30 * time.Second,
			HeartbeatInterval: 5 * time.Second,
			HeartbeatTimeout:  2 * time.Second,
			TrustMargin:       2 * time.Second,
			ParkAfter:         2 * time.Second,
			DrainTimeout:      30 * time.Second,
			RetryBase:         time.Second,
			RetryCap:          5 * time.Minute,
		},
		Dispatcher: Dispatcher{
			ClaimTTL:     60 * time.Second,
			ClaimBatch:   100,
			PollInterval: time.Second,
			SendMargin:   5 * time.Second,
			PauseCap:     30 * time.Second,
			DrainTimeout: 45 * time.Second,
		},
		Reconciler: Reconciler{
			Interval:      2 * time.Second,
			Batch:         100,
			ClaimTTL:      60 * time.Second,
			BackoffBase:   5 * time.Second,
			BackoffCap:    10 * time.Minute,
			WatchdogAfter: time.Second,
			StatsInterval: 10 * time.Second,
			DrainTimeout:  45 * time.Second,
		},
		Log: Log{Level: "info", Format: "json"},
	}
}
