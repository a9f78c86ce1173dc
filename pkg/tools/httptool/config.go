package httptool

import (
	"time"

	"github.com/leasehold/leasehold/pkg/tools"
)

// Config is the config section of a tool of kind http.
type Config struct {
	// Method and URL of the request. The URL may hold placeholders after its
	// host.
	Method string `yaml:"method"`
	URL    string `yaml:"url"`
	// Headers and Params (of the URL's query) of every request to this tool,
	// the query's included.
	Headers []Param `yaml:"headers"`
	Params  []Param `yaml:"params"`
	// Body is a template. Without one the body is the operation's request,
	// byte for byte (and empty for GET, HEAD and DELETE).
	Body string `yaml:"body"`
	// ContentType of the body: application/json, another type that ends in
	// +json, or application/x-www-form-urlencoded (which needs a Body).
	ContentType string `yaml:"content_type"`

	// OperationID and RunID say where the identities go, so that a person can
	// find at the remote what the ledger speaks of.
	OperationID Place `yaml:"operation_id"`
	RunID       Place `yaml:"run_id"`
	// Key says where what the remote deduplicates by (or names the effect by)
	// goes.
	Key Key `yaml:"key"`

	// Answers are tried in order before the rules of HTTP; the first that fits
	// says what an answer means.
	Answers []Rule `yaml:"answers"`
	// RemoteID and Result are JSON Pointers into an answer: the remote's own
	// name for the effect, and what the workflow gets ("" is the whole answer).
	RemoteID string `yaml:"remote_id"`
	Result   string `yaml:"result"`

	// Query says how to ask what became of an operation; nil if one cannot.
	Query *Query `yaml:"query"`
	// Capabilities is what this tool promises.
	Capabilities Promise `yaml:"capabilities"`

	// Timeout bounds one request, all told.
	Timeout time.Duration `yaml:"timeout"`
	// ConnectTimeout bounds name lookup, TCP and TLS: until then nothing of the
	// request has been sent.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// KeepAlive is how long an unused connection is kept; 0s keeps none. A tool
	// of class none never keeps one: a request that meets a connection which
	// the remote is just closing is lost without a trace, and only a person
	// could say what became of it.
	KeepAlive time.Duration `yaml:"keep_alive"`
	// MaxAnswer is how many bytes of an answer are read.
	MaxAnswer int64 `yaml:"max_answer"`
	// HTTP2 is for remotes that speak nothing else.
	HTTP2 bool `yaml:"http2"`
	TLS   TLS  `yaml:"tls"`
	// EvidenceHeaders are kept with the evidence beside the usual ones.
	EvidenceHeaders []string `yaml:"evidence_headers"`
}

// Param is one header or query parameter.
type Param struct {
	Name string `yaml:"name"`
	// Prefix goes before the value, such as "Bearer ".
	Prefix string `yaml:"prefix"`
	// Exactly one of the three: a template, the name of an environment
	// variable, or a file that is read anew for each request.
	Value     string `yaml:"value"`
	ValueEnv  string `yaml:"value_env"`
	ValueFile string `yaml:"value_file"`
}

// Place is where an identity goes: any of the three, or nowhere.
type Place struct {
	Header string `yaml:"header"`
	Param  string `yaml:"param"`
	// Field is the name of a member that is added to the request, a JSON object.
	Field string `yaml:"field"`
}

// Key is where the key goes and what it looks like.
type Key struct {
	Place `yaml:",inline"`

	// Format is raw (the operation id), quoted (the same as a string of RFC
	// 9651), uuid, or short (letters and digits, as many as Length).
	Format string `yaml:"format"`
	Length int    `yaml:"length"`
}

// Rule says what an answer means.
type Rule struct {
	// Status is any of these; all if empty.
	Status []int `yaml:"status"`
	// Pointer is where to look in the answer. With In, the value there must be
	// one of these (written as text); without, it must be there and not null.
	Pointer string   `yaml:"pointer"`
	In      []string `yaml:"in"`
	// Means is a kind of outcome, such as rejected.
	Means string `yaml:"means"`
}

// Query is how to ask what became of an operation.
type Query struct {
	Method      string  `yaml:"method"`
	URL         string  `yaml:"url"`
	Headers     []Param `yaml:"headers"`
	Params      []Param `yaml:"params"`
	Body        string  `yaml:"body"`
	ContentType string  `yaml:"content_type"`
	// Found is where the answer holds the effect, such as /data/0 for a search.
	// If there is nothing (or null), the operation is absent. All other
	// pointers of the query start from there.
	Found    string `yaml:"found"`
	Answers  []Rule `yaml:"answers"`
	RemoteID string `yaml:"remote_id"` // default: the tool's
	Result   string `yaml:"result"`    // default: the tool's
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

// TLS says whom to trust and as whom to appear. By default: the system's
// authorities, and nobody.
type TLS struct {
	CAFile     string `yaml:"ca_file"`
	CertFile   string `yaml:"cert_file"`
	KeyFile    string `yaml:"key_file"`
	ServerName string `yaml:"server_name"`
}

func defaults() *Config {
	return &Config{
		Method:         "POST",
		ContentType:    "application/json",
		OperationID:    Place{Header: "X-Operation-Id"},
		RunID:          Place{Header: "X-Run-Id"},
		Key:            Key{Format: formatRaw, Length: 32},
		Capabilities:   Promise{Class: string(tools.ClassNone), MaxRequest: time.Minute},
		Timeout:        15 * time.Second,
		ConnectTimeout: 5 * time.Second,
		KeepAlive:      15 * time.Second,
		MaxAnswer:      256 << 10,
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
