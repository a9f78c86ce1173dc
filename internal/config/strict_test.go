package config

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// problemsOf loads and returns the text of each problem, with the file's path
// shortened to f.
func problemsOf(t *testing.T, o Options) []string {
	t.Helper()
	_, err := Load(o)
	if err == nil {
		return nil
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("not an *Error: %v", err)
	}
	var out []string
	for _, p := range e.Problems {
		s := p.String()
		if o.File != "" {
			s = strings.ReplaceAll(s, o.File, "f")
		}
		out = append(out, s)
	}
	return out
}

func TestMistakesAreRefusedWithTheirPlaceAndWhatWouldBeRight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		yaml string
		env  []string
		set  []string
		want []string
	}{
		{name: "an empty file is fine", yaml: ""},
		{name: "a section whose lines are commented out is fine", yaml: "worker:\n#  slots: 3\n"},
		{
			name: "misspelt key", yaml: "worker:\n  hartbeat_interval: 5s\n",
			want: []string{"worker.hartbeat_interval (f:2): unknown key (did you mean worker.heartbeat_interval?)"},
		},
		{
			name: "misspelt section", yaml: "wroker:\n  slots: 5\n",
			want: []string{"wroker (f:1): unknown key (did you mean worker?)"},
		},
		{
			name: "key in another case", yaml: "Worker: {slots: 5}\n",
			want: []string{"Worker (f:1): unknown key (did you mean worker?)"},
		},
		{
			name: "dotted key", yaml: "worker.slots: 5\n",
			want: []string{"worker.slots (f:1): must be nested: write worker: and slots: below it"},
		},
		{
			name: "nothing like it", yaml: "frobnicate: 5\n",
			want: []string{"frobnicate (f:1): unknown key"},
		},
		{
			name: "duplicate key", yaml: "worker:\n  slots: 5\n  slots: 6\n",
			want: []string{"worker.slots (f:3): is defined twice (first on line 2)"},
		},
		{
			name: "duplicate section", yaml: "worker: {slots: 5}\nworker: {slots: 6}\n",
			want: []string{"worker (f:2): is defined twice (first on line 1)"},
		},
		{
			name: "duration without a unit", yaml: "worker:\n  lease_ttl: 30\n",
			want: []string{`worker.lease_ttl (f:2): a duration needs a unit, such as 500ms, 30s or 5m: not "30"`},
		},
		{
			name: "quoted duration without a unit", yaml: "worker: {park_after: '0'}\n",
			want: []string{`worker.park_after (f:1): a duration needs a unit, such as 500ms, 30s or 5m: not "0"`},
		},
		{
			name: "duration without a unit in the environment", env: []string{"LEASEHOLD_WORKER_LEASE_TTL=30"},
			want: []string{`worker.lease_ttl (LEASEHOLD_WORKER_LEASE_TTL): a duration needs a unit, such as 500ms, 30s or 5m: not "30"`},
		},
		{
			name: "text for a number", yaml: "worker: {slots: many}\n",
			want: []string{`worker.slots (f:1): must be a whole number, not "many"`},
		},
		{
			name: "fraction for a number", yaml: "worker: {slots: 20.5}\n",
			want: []string{`worker.slots (f:1): must be a whole number, not "20.5"`},
		},
		{
			name: "quoted number", yaml: "worker: {slots: '20'}\n",
			want: []string{`worker.slots (f:1): must be a whole number, not "20"`},
		},
		{
			name: "number for a text", yaml: "http: {listen: 9101}\n",
			want: []string{`http.listen (f:1): must be text, not "9101"; put it in quotes`},
		},
		{
			name: "text for a list", yaml: "worker: {queues: default}\n",
			want: []string{`worker.queues (f:1): must be a list, such as [a, b], not "default"`},
		},
		{
			name: "yes for a truth value", yaml: "http: {pprof: 'yes'}\n",
			want: []string{`http.pprof (f:1): must be true or false, not "yes"`},
		},
		{
			name: "key without a value", yaml: "worker:\n  slots:\n  queues: [a]\n",
			want: []string{"worker.slots (f:2): has no value: give one, or remove the line"},
		},
		{
			name: "section for a value", yaml: "worker: {slots: {a: 1}}\n",
			want: []string{"worker.slots (f:1): must be a whole number, not a section"},
		},
		{
			name: "value for a section", yaml: "worker: 5\n",
			want: []string{`worker (f:1): must be a section with keys, not "5"`},
		},
		{
			name: "two documents", yaml: "worker: {slots: 1}\n---\nworker: {slots: 2}\n",
			want: []string{"(f): has more than one YAML document"},
		},
		{
			name: "misspelt variable", env: []string{"LEASEHOLD_DATABASE_DNS=x"},
			want: []string{"(LEASEHOLD_DATABASE_DNS): unknown environment variable (did you mean LEASEHOLD_DATABASE_DSN?)"},
		},
		{name: "variables of tests", env: []string{"LEASEHOLD_TEST_POSTGRES=x"}},
		{name: "variables of others", env: []string{"LEASE=x", "PATH=y"}},
		{
			name: "what Kubernetes adds for services called leasehold and leasehold-worker",
			env: []string{
				"LEASEHOLD_PORT=tcp://10.0.0.1:80", "LEASEHOLD_SERVICE_HOST=10.0.0.1",
				"LEASEHOLD_WORKER_SERVICE_PORT=80", "LEASEHOLD_WORKER_SERVICE_PORT_METRICS=80",
				"LEASEHOLD_WORKER_PORT=tcp://10.0.0.1:80", "LEASEHOLD_WORKER_PORT_80_TCP_ADDR=10.0.0.1",
			},
		},
		{
			name: "unknown flag", set: []string{"worker.slot=3"},
			want: []string{"worker.slot (flag): unknown key (did you mean worker.slots?)"},
		},
		{
			name: "flag without a value", set: []string{"worker.slots"},
			want: []string{`(flag): "worker.slots" is not key=value`},
		},
		{
			name: "flag for a tool", set: []string{"tools=x"},
			want: []string{"tools (flag): tools are read from the file only"},
		},
		{
			name: "outside of limits", yaml: "worker: {slots: 0}\n", env: []string{"LEASEHOLD_DISPATCHER_CLAIM_TTL=2h"},
			want: []string{
				"dispatcher.claim_ttl (LEASEHOLD_DISPATCHER_CLAIM_TTL): must be between 200ms and 1h, not 2h",
				"worker.slots (f:1): must be between 1 and 10000, not 0",
			},
		},
		{
			name: "log level", yaml: "log: {level: trace}\n",
			want: []string{`log.level (f:1): must be one of [debug info warn error], not "trace"`},
		},
		{
			name: "address without a port", yaml: "http: {listen: localhost}\n",
			want: []string{`http.listen (f:1): must be host:port or :port, not "localhost"`},
		},
		{
			name: "queue named twice", yaml: "worker: {queues: [a, a]}\n",
			want: []string{`worker.queues (f:1): names "a" twice`},
		},
		{
			name: "no queue", yaml: "worker: {queues: []}\n",
			want: []string{"worker.queues (f:1): must name at least one queue"},
		},
		{
			name: "secret twice, in different layers", yaml: "database: {dsn_file: /run/dsn}\n",
			env:  []string{"LEASEHOLD_DATABASE_DSN=postgres://a:hunter2@b/c"},
			want: []string{"database.dsn (LEASEHOLD_DATABASE_DSN): is set, and so is database.dsn_file (f:1): set one of them"},
		},
		{
			name: "a relation with a value that could not be read says nothing",
			yaml: "worker:\n  lease_ttl: 30\n  heartbeat_interval: 20s\n",
			want: []string{`worker.lease_ttl (f:2): a duration needs a unit, such as 500ms, 30s or 5m: not "30"`},
		},
		{
			name: "everything at once",
			yaml: "worker:\n  slots: many\n  lease_ttl: 30\n  hartbeat: 1s\n",
			env:  []string{"LEASEHOLD_WORKER_SLOT=3", "LEASEHOLD_LOG_LEVEL=loud"},
			want: []string{
				"(LEASEHOLD_WORKER_SLOT): unknown environment variable (did you mean LEASEHOLD_WORKER_SLOTS?)",
				`log.level (LEASEHOLD_LOG_LEVEL): must be one of [debug info warn error], not "loud"`,
				"worker.hartbeat (f:4): unknown key",
				`worker.lease_ttl (f:3): a duration needs a unit, such as 500ms, 30s or 5m: not "30"`,
				`worker.slots (f:2): must be a whole number, not "many"`,
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := problemsOf(t, Options{File: write(t, c.yaml), Environ: c.env, Set: c.set})
			if g, w := strings.Join(got, "\n"), strings.Join(c.want, "\n"); g != w {
				t.Errorf("got:\n%s\nwant:\n%s", g, w)
			}
		})
	}
}

func TestEachRelationIsRefusedByNameWithItsValues(t *testing.T) {
	t.Parallel()
	broken := map[string][]string{
		"worker.heartbeat_interval × 3":            {"worker.heartbeat_interval=11s"},
		"worker.heartbeat_timeout must be less":    {"worker.heartbeat_timeout=5s"},
		"heartbeat_timeout + trust_margin":         {"worker.trust_margin=23s"},
		"worker.retry_base must be at most":        {"worker.retry_base=6m"},
		"must be less than dispatcher.claim_ttl":   {"dispatcher.send_margin=1m", "reconciler.claim_ttl=2m"},
		"dispatcher.drain_timeout must be at most": {"dispatcher.drain_timeout=1m1s"},
		"must be less than reconciler.claim_ttl":   {"reconciler.claim_ttl=5s", "reconciler.drain_timeout=1s"},
		"reconciler.drain_timeout must be at most": {"reconciler.drain_timeout=1m1s"},
		"reconciler.backoff_base must be at most":  {"reconciler.backoff_base=11m"},
	}
	for _, r := range allRelations() {
		var name string
		for text := range broken {
			if strings.Contains(r.text, text) {
				name = text
			}
		}
		if name == "" {
			t.Errorf("no case for: %s", r.text)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := problemsOf(t, Options{Set: broken[name]})
			if len(got) != 1 || !strings.Contains(got[0], r.text+": "+r.why) {
				t.Fatalf("got %q, want %q", got, r.text)
			}
			key, value, _ := strings.Cut(broken[name][0], "=")
			if !strings.Contains(got[0], key+" is "+value) {
				t.Errorf("%q does not say that %s is %s", got[0], key, value)
			}
		})
	}
}

func TestAConnectionStringIsRequiredOfARoleAndFoundWhereItMayBe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret, empty := dir+"/dsn", dir+"/empty"
	for name, text := range map[string]string{secret: "postgres://from-file/db\n", empty: "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		set  []string
		role Role
		want string // the string, or the problem
	}{
		{name: "none", role: RoleWorker, want: "no connection string for the worker: set database.dsn (LEASEHOLD_DATABASE_DSN)"},
		{name: "general", role: RoleWorker, set: []string{"database.dsn=postgres://a/b"}, want: "postgres://a/b"},
		{name: "from a file, less one newline", role: RoleWorker, set: []string{"database.dsn_file=" + secret}, want: "postgres://from-file/db"},
		{name: "empty file", role: RoleWorker, set: []string{"database.dsn_file=" + empty}, want: "is empty"},
		{name: "missing file", role: RoleWorker, set: []string{"database.dsn_file=" + dir + "/nowhere"}, want: "no such file"},
		{
			name: "its own over the general", role: RoleDispatcher, want: "postgres://d/",
			set: []string{"database.dsn=postgres://a/b", "database.roles.dispatcher.dsn=postgres://d/"},
		},
		{
			name: "another role's own is not used", role: RoleReconciler, want: "no connection string for the reconciler",
			set: []string{"database.roles.dispatcher.dsn=postgres://d/"},
		},
		{name: "operator", role: RoleOperator, set: []string{"database.roles.operator.dsn=postgres://o/"}, want: "postgres://o/"},
		{name: "migrator", role: RoleMigrator, set: []string{"database.roles.migrator.dsn=postgres://m/"}, want: "postgres://m/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg, err := Load(Options{Role: c.role, Set: c.set})
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %s", err, c.want)
				}
				return
			}
			dsn, err := cfg.Database.ResolveDSN(c.role)
			if err != nil || dsn.Reveal() != c.want {
				t.Errorf("got %q %v, want %q", dsn.Reveal(), err, c.want)
			}
		})
	}
}
