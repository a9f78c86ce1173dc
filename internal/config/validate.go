package config

import (
	"fmt"
	"net"
	"slices"
	"time"
)

// maxTTL is the ceiling that the database enforces for leases and claims.
const maxTTL = time.Hour

// limits bounds one number or duration, ends included.
type limits struct {
	key      string
	min, max any
}

// allLimits holds an entry for every number and duration there is.
func allLimits() []limits {
	const ms = time.Millisecond
	return []limits{
		{"database.max_conns", 2, 1000},
		{"database.connect_timeout", 100 * ms, 5 * time.Minute},
		{"worker.slots", 1, 10_000},
		{"worker.poll_interval", 10 * ms, time.Minute},
		{"worker.lease_ttl", 200 * ms, maxTTL},
		{"worker.heartbeat_interval", 10 * ms, maxTTL},
		{"worker.heartbeat_timeout", 10 * ms, maxTTL},
		{"worker.trust_margin", 10 * ms, maxTTL},
		{"worker.park_after", 10 * ms, time.Hour},
		{"worker.drain_timeout", 100 * ms, time.Hour},
		{"worker.retry_base", 10 * ms, time.Hour},
		{"worker.retry_cap", 10 * ms, 24 * time.Hour},
		{"dispatcher.slots", 0, 10_000},
		{"dispatcher.claim_ttl", 200 * ms, maxTTL},
		{"dispatcher.claim_batch", 1, 100},
		{"dispatcher.poll_interval", 10 * ms, time.Minute},
		{"dispatcher.send_margin", 10 * ms, maxTTL},
		{"dispatcher.pause_cap", 250 * ms, time.Hour},
		{"dispatcher.drain_timeout", 100 * ms, maxTTL},
		{"reconciler.interval", 10 * ms, 5 * time.Minute},
		{"reconciler.batch", 1, 100},
		{"reconciler.claim_ttl", 200 * ms, maxTTL},
		{"reconciler.backoff_base", 10 * ms, time.Hour},
		{"reconciler.backoff_cap", 10 * ms, 24 * time.Hour},
		{"reconciler.watchdog_after", 500 * ms, time.Minute},
		{"reconciler.stats_interval", 100 * ms, 10 * time.Minute},
		{"reconciler.drain_timeout", 100 * ms, maxTTL},
	}
}

// relation is a rule about several values. keys[0] is the one to blame.
type relation struct {
	keys  []string
	text  string // the rule
	why   string
	holds func(c *Config) bool
}

func allRelations() []relation {
	return []relation{
		{
			keys:  []string{"worker.heartbeat_interval", "worker.lease_ttl"},
			text:  "worker.heartbeat_interval × 3 must be at most worker.lease_ttl",
			why:   "a lease must outlive two lost renewals",
			holds: func(c *Config) bool { return c.Worker.HeartbeatInterval*3 <= c.Worker.LeaseTTL },
		},
		{
			keys:  []string{"worker.heartbeat_timeout", "worker.heartbeat_interval"},
			text:  "worker.heartbeat_timeout must be less than worker.heartbeat_interval",
			why:   "a renewal must be judged before the next is due",
			holds: func(c *Config) bool { return c.Worker.HeartbeatTimeout < c.Worker.HeartbeatInterval },
		},
		{
			keys: []string{
				"worker.trust_margin", "worker.heartbeat_interval",
				"worker.heartbeat_timeout", "worker.lease_ttl",
			},
			text: "worker.heartbeat_interval + heartbeat_timeout + trust_margin must be less than worker.lease_ttl",
			why:  "otherwise a worker stops trusting a lease that is renewed on time",
			holds: func(c *Config) bool {
				w := c.Worker
				return w.HeartbeatInterval+w.HeartbeatTimeout+w.TrustMargin < w.LeaseTTL
			},
		},
		{
			keys:  []string{"worker.retry_base", "worker.retry_cap"},
			text:  "worker.retry_base must be at most worker.retry_cap",
			why:   "the pause grows from the one to the other",
			holds: func(c *Config) bool { return c.Worker.RetryBase <= c.Worker.RetryCap },
		},
		{
			keys:  []string{"dispatcher.send_margin", "dispatcher.claim_ttl"},
			text:  "dispatcher.send_margin must be less than dispatcher.claim_ttl",
			why:   "otherwise no request may ever be sent",
			holds: func(c *Config) bool { return c.Dispatcher.SendMargin < c.Dispatcher.ClaimTTL },
		},
		{
			keys:  []string{"dispatcher.drain_timeout", "dispatcher.claim_ttl"},
			text:  "dispatcher.drain_timeout must be at most dispatcher.claim_ttl",
			why:   "no claim outlives its TTL, so a longer drain waits for nothing",
			holds: func(c *Config) bool { return c.Dispatcher.DrainTimeout <= c.Dispatcher.ClaimTTL },
		},
		{
			keys:  []string{"dispatcher.send_margin", "reconciler.claim_ttl"},
			text:  "dispatcher.send_margin must be less than reconciler.claim_ttl",
			why:   "the reconciler keeps the same margin, so it could never ask or re-send",
			holds: func(c *Config) bool { return c.Dispatcher.SendMargin < c.Reconciler.ClaimTTL },
		},
		{
			keys:  []string{"reconciler.drain_timeout", "reconciler.claim_ttl"},
			text:  "reconciler.drain_timeout must be at most reconciler.claim_ttl",
			why:   "no doubt stays taken up longer, so a longer drain waits for nothing",
			holds: func(c *Config) bool { return c.Reconciler.DrainTimeout <= c.Reconciler.ClaimTTL },
		},
		{
			keys:  []string{"reconciler.backoff_base", "reconciler.backoff_cap"},
			text:  "reconciler.backoff_base must be at most reconciler.backoff_cap",
			why:   "the pause grows from the one to the other",
			holds: func(c *Config) bool { return c.Reconciler.BackoffBase <= c.Reconciler.BackoffCap },
		},
	}
}

func validate(c *Config, role Role, p *problems) {
	values := map[string]any{}
	for _, l := range leavesOf(c) {
		values[l.key] = l.value
	}
	for _, l := range allLimits() {
		if !p.about(l.key) && !l.hold(values[l.key]) {
			p.add(l.key, c.places[l.key], fmt.Sprintf("must be between %s and %s, not %s",
				display(l.min), display(l.max), display(values[l.key])))
		}
	}
	c.validateTexts(p)
	c.validateSecrets(values, p)
	for _, r := range allRelations() {
		if !p.about(r.keys...) && !r.holds(c) {
			p.add(r.keys[0], c.places[r.keys[0]], r.text+": "+r.why+" ("+c.quote(r.keys, values)+")")
		}
	}
	if role != "" && !p.about("database.dsn", "database.roles."+string(role)+".dsn") {
		if _, err := c.Database.ResolveDSN(role); err != nil {
			p.add("database.dsn", c.places["database.dsn"], err.Error())
		}
	}
	c.validateCallbacks(role, p)
}

func (l limits) hold(v any) bool {
	switch v := v.(type) {
	case int:
		return l.min.(int) <= v && v <= l.max.(int)
	case time.Duration:
		return l.min.(time.Duration) <= v && v <= l.max.(time.Duration)
	}
	return false
}

func (c *Config) validateTexts(p *problems) {
	oneOf := func(key, value string, allowed ...string) {
		if !p.about(key) && !slices.Contains(allowed, value) {
			p.add(key, c.places[key], fmt.Sprintf("must be one of %v, not %q", allowed, value))
		}
	}
	oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	oneOf("log.format", c.Log.Format, "json", "text")
	c.validateAddress("http.listen", c.HTTP.Listen, p)
	c.validateAddress("reconciler.callbacks.listen", c.Reconciler.Callbacks.Listen, p)
	if len(c.Worker.Queues) == 0 && !p.about("worker.queues") {
		p.add("worker.queues", c.places["worker.queues"], "must name at least one queue")
	}
	for key, list := range map[string][]string{
		"worker.queues": c.Worker.Queues, "worker.workflows": c.Worker.Workflows,
	} {
		for i, name := range list {
			switch {
			case name == "":
				p.add(key, c.places[key], "has an empty name")
			case slices.Contains(list[:i], name):
				p.add(key, c.places[key], fmt.Sprintf("names %q twice", name))
			}
		}
	}
}

func (c *Config) validateAddress(key, address string, p *problems) {
	if address == "" || p.about(key) {
		return
	}
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		p.add(key, c.places[key], fmt.Sprintf("must be host:port or :port, not %q", address))
	}
}

// validateSecrets refuses x beside x_file, whichever layers they come from: a
// guess about which of two credentials was meant can only be a wrong one.
func (c *Config) validateSecrets(values map[string]any, p *problems) {
	for _, key := range sortedKeys(values) {
		secret, isSecret := values[key].(Secret)
		fileKey := key + "_file"
		path, hasFile := values[fileKey].(string)
		if isSecret && hasFile && !secret.IsZero() && path != "" {
			p.add(key, c.places[key], fmt.Sprintf("is set, and so is %s (%s): set one of them",
				fileKey, c.places[fileKey]))
		}
	}
}

func (c *Config) quote(keys []string, values map[string]any) string {
	var s string
	for i, k := range keys {
		if i > 0 {
			s += ", "
		}
		s += k + " is " + display(values[k])
		if c.sources[k] == SourceDefault {
			s += " by default"
		} else if i > 0 {
			s += " from " + c.places[k]
		}
	}
	return s
}
