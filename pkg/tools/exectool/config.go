package exectool

import (
	"time"

	"github.com/leasehold/leasehold/pkg/tools"
)

// Config is the config section of a tool of kind exec.
type Config struct {
	// Command is the program, by its absolute path, and its arguments. No shell
	// reads it.
	Command []string `yaml:"command"`
	// Query is a command that says what became of an operation; empty if the
	// tool cannot be asked.
	Query []string `yaml:"query"`
	// Dir is the working directory, an absolute path.
	Dir string `yaml:"dir"`
	// Env is what the command gets beside PATH and LANG. It inherits nothing:
	// the sending process's environment holds everybody's secrets.
	Env []Variable `yaml:"env"`
	// RemoteID is a JSON Pointer into the output: the effect's own name.
	RemoteID string `yaml:"remote_id"`

	// Capabilities is what this tool promises.
	Capabilities Promise `yaml:"capabilities"`

	// Timeout is how long a command may take before it is asked to end
	// (SIGTERM); Grace is how long it may take to do so (SIGKILL).
	Timeout time.Duration `yaml:"timeout"`
	Grace   time.Duration `yaml:"grace"`
	// MaxAnswer is how many bytes of the output are kept.
	MaxAnswer int `yaml:"max_answer"`
}

// Variable is one environment variable.
type Variable struct {
	Name string `yaml:"name"`
	// Exactly one of the three: the value, the name of a variable of the sending
	// process, or a file that is read anew for each call.
	Value     string `yaml:"value"`
	ValueEnv  string `yaml:"value_env"`
	ValueFile string `yaml:"value_file"`
}

// Promise is tools.Capabilities as it is written in YAML.
type Promise struct {
	Class           string        `yaml:"class"`
	ReadOnly        bool          `yaml:"read_only"`
	Retention       time.Duration `yaml:"retention"`
	MaxRequest      time.Duration `yaml:"max_request"`
	Settle          time.Duration `yaml:"settle"`
	AbsenceIsProof  bool          `yaml:"absence_is_proof"`
	ResourceKey     string        `yaml:"resource_key"`
	Approval        bool          `yaml:"approval"`
	RejectsMismatch bool          `yaml:"rejects_mismatch"`
	OnCancel        string        `yaml:"on_cancel"`
}

func defaults() *Config {
	return &Config{
		Dir:          "/",
		Capabilities: Promise{Class: string(tools.ClassNone), MaxRequest: time.Minute},
		Timeout:      15 * time.Second,
		Grace:        2 * time.Second,
		MaxAnswer:    256 << 10,
	}
}

func (p Promise) capabilities(query bool) tools.Capabilities {
	return tools.Capabilities{
		Class:           tools.Class(p.Class),
		Query:           query,
		ReadOnly:        p.ReadOnly,
		RetentionMS:     p.Retention.Milliseconds(),
		MaxRequestMS:    p.MaxRequest.Milliseconds(),
		SettleMS:        p.Settle.Milliseconds(),
		AbsenceIsProof:  p.AbsenceIsProof,
		ResourceKey:     p.ResourceKey,
		Approval:        p.Approval,
		RejectsMismatch: p.RejectsMismatch,
		OnCancel:        p.OnCancel,
	}
}
