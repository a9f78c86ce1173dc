package config

import (
	"regexp"
	"strings"
)

const (
	configVariable = EnvPrefix + "CONFIG"
	testPrefix     = EnvPrefix + "TEST_"
)

// serviceLink matches the variables that Kubernetes puts into every pod for a
// Service of the namespace. A Service called leasehold-worker gives
// LEASEHOLD_WORKER_PORT and more, which nobody wrote and nobody can remove
// without enableServiceLinks: false: refusing them would stop every pod.
var serviceLink = regexp.MustCompile(
	`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// environment returns the product's variables of environ. A variable without
// content counts as not set: it is how compose files and charts spell "none".
func environment(environ []string) map[string]string {
	out := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, EnvPrefix) && value != "" {
			out[name] = value
		}
	}
	return out
}

// readEnv returns the values of the known variables and refuses the others.
func readEnv(vars map[string]string, o Options, known map[string]leaf, tools []Tool, p *problems) map[string]any {
	byName := make(map[string]leaf, len(known))
	for _, l := range known {
		byName[l.env()] = l
	}
	allowed := map[string]bool{configVariable: true}
	for _, name := range append(envNamedBy(tools), o.AllowEnv...) {
		allowed[name] = true
	}
	values := map[string]any{}
	for _, name := range sortedKeys(vars) {
		l, ok := byName[name]
		switch {
		case ok:
			v, err := l.parseText(vars[name])
			if err != nil {
				p.add(l.key, name, err.Error())
				continue
			}
			values[l.key] = v
		case allowed[name], strings.HasPrefix(name, testPrefix), serviceLink.MatchString(name):
		default:
			p.add("", name, "unknown environment variable"+didYouMean(name, sortedKeys(byName)))
		}
	}
	return values
}
