package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/leasehold/leasehold/pkg/tools/callback"
)

// Callback is the callback section of a tool.
type Callback struct {
	// Secrets are those in force; each signs for itself.
	Secrets []SecretSource `yaml:"secrets"`
	// Window is how far a message's time may be from now, on both sides.
	Window time.Duration `yaml:"window"`
}

// SecretSource says where a secret is: a variable or a file, one of the two.
type SecretSource struct {
	Env  string `yaml:"env,omitempty"`
	File string `yaml:"file,omitempty"`
}

const (
	minCallbackWindow = time.Second
	maxCallbackWindow = time.Hour
	maxSecrets        = 4
)

// readCallback reads the section strictly. No secret is opened: the processes
// that receive nothing have none.
func readCallback(n *yaml.Node) (*Callback, error) {
	if n.Kind != yaml.MappingNode {
		return nil, errors.New("must be a section with secrets and window" + notThis(n))
	}
	c := Callback{Window: callback.DefaultWindow}
	if err := decodeSection(n, &c); err != nil {
		return nil, err
	}
	if len(c.Secrets) == 0 {
		return nil, errors.New("secrets: must name at least one: without a secret nobody can be believed")
	}
	if len(c.Secrets) > maxSecrets {
		return nil, fmt.Errorf("secrets: names %d; at most %d may be in force", len(c.Secrets), maxSecrets)
	}
	for i, s := range c.Secrets {
		if (s.Env == "") == (s.File == "") {
			return nil, fmt.Errorf("secrets[%d]: must have env or file, one of the two", i)
		}
	}
	if c.Window < minCallbackWindow || c.Window > maxCallbackWindow {
		return nil, fmt.Errorf("window: must be between %s and %s, not %s",
			display(minCallbackWindow), display(maxCallbackWindow), display(c.Window))
	}
	return &c, nil
}

// Open reads the secrets in force. A file is read each time, so that a rotated
// secret needs no restart. The error names what cannot be read, and no secret.
func (c *Callback) Open() ([][]byte, error) {
	var out [][]byte
	for i, s := range c.Secrets {
		text, err := s.read()
		if err == nil && len(text) < callback.MinSecret {
			err = fmt.Errorf("has %d bytes; a secret has at least %d", len(text), callback.MinSecret)
		}
		if err != nil {
			return nil, fmt.Errorf("callback.secrets[%d]: %w", i, err)
		}
		out = append(out, []byte(text))
	}
	return out, nil
}

func (s SecretSource) read() (string, error) {
	if s.Env != "" {
		if text := os.Getenv(s.Env); text != "" {
			return text, nil
		}
		return "", fmt.Errorf("environment variable %s is empty", s.Env)
	}
	b, err := os.ReadFile(s.File)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}

func (c *Callback) environment() []string {
	var names []string
	for _, s := range c.Secrets {
		if s.Env != "" {
			names = append(names, s.Env)
		}
	}
	return names
}

// validateCallbacks holds the listener against what it needs.
func (c *Config) validateCallbacks(role Role, p *problems) {
	const section = "reconciler.callbacks."
	cb := c.Reconciler.Callbacks
	if cb.Listen == "" {
		return
	}
	if (cb.TLSCertFile == "") != (cb.TLSKeyFile == "") {
		p.add(section+"tls_cert_file", c.places[section+"tls_cert_file"],
			"and "+section+"tls_key_file must both be set, or neither")
	}
	if role != RoleReconciler {
		return // the others read the same file and receive nothing
	}
	if _, err := c.Database.ResolveDSN(RoleCallback); err != nil && !p.about("database.roles.callback.dsn") {
		p.add("database.roles.callback.dsn", c.places["database.roles.callback.dsn"], err.Error())
	}
	may := false
	for _, t := range c.Tools {
		if t.Callback == nil {
			continue
		}
		may = true
		if _, err := t.Callback.Open(); err != nil {
			p.add("tools."+t.Name, t.place, err.Error())
		}
	}
	if !may {
		p.add(section+"listen", c.places[section+"listen"], "is set, and no tool has a callback section: nobody could call back")
	}
}
