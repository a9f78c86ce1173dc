package mcptool

import (
	"time"

	"github.com/leasehold/leasehold/pkg/tools"
)

// Config is the config section of a tool of kind mcp.
type Config struct {
	// Server says where the tool lives. Tools with the same settings share one
	// session.
	Server Server `yaml:"server"`
	// Tool is the server's name for it; default: the name in our configuration.
	Tool string `yaml:"tool"`
	// OperationID and RunID name arguments that carry the identities, beside
	// _meta, which always does.
	OperationID string `yaml:"operation_id_argument"`
	RunID       string `yaml:"run_id_argument"`
	// RemoteID and Result are JSON Pointers into a result: the server's own name
	// for the effect, and what the workflow gets ("" is the whole result).
	RemoteID string `yaml:"remote_id"`
	Result   string `yaml:"result"`
	// Query says how to ask what became of an operation; nil if one cannot.
	Query *Query `yaml:"query"`
	// Capabilities is what this tool promises.
	Capabilities Promise `yaml:"capabilities"`
	// Timeout bounds one call, the making of a session included.
	Timeout time.Duration `yaml:"timeout"`
}

// Server is a command that is spoken to over its standard input and output, or
// a URL that speaks streamable HTTP.
type Server struct {
	Command string   `yaml:"command"`
	Args    []string `yaml:"args"`
	Dir     string   `yaml:"dir"`
	// Env is all that the command gets beside PATH, HOME, TMPDIR and LANG: our
	// own environment may hold the database's password.
	Env []Param `yaml:"env"`

	URL     string  `yaml:"url"`
	Headers []Param `yaml:"headers"`

	// MaxAnswer is how many bytes one message of the server may have.
	MaxAnswer int `yaml:"max_answer"`
}

// Param is one header or environment variable.
type Param struct {
	Name string `yaml:"name"`
	// Prefix goes before the value, such as "Bearer ".
	Prefix string `yaml:"prefix"`
	// Exactly one of the three: the value, the name of an environment variable,
	// or a file. A header's secret is read for each request, a command's at its
	// start.
	Value     string `yaml:"value"`
	ValueEnv  string `yaml:"value_env"`
	ValueFile string `yaml:"value_file"`
}

// Query is how to ask what became of an operation: another tool of the same
// server, which must have no effect.
type Query struct {
	Tool string `yaml:"tool"`
	// Arguments of the call. A string may be or hold ${operation_id},
	// ${run_id}, ${remote_id} or ${request/pointer}.
	Arguments map[string]any `yaml:"arguments"`
	// Found is where the result holds the effect; if there is nothing, null, ""
	// or [] there, the operation is absent. remote_id and result start there.
	Found string `yaml:"found"`
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
		Server:       Server{MaxAnswer: 4 << 20},
		Capabilities: Promise{Class: string(tools.ClassNone), MaxRequest: time.Minute},
		Timeout:      30 * time.Second,
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
