package mcptool

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
)

// check reports every mistake in cfg by its key. It reads no secret and opens
// nothing.
func check(cfg *Config) (tools.Capabilities, error) {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	pointer := func(key, p string) {
		if err := protocol.ValidatePointer(p); err != nil {
			refuse("%s: %w", key, err)
		}
	}

	cfg.Server.check(refuse)
	pointer("remote_id", cfg.RemoteID)
	pointer("result", cfg.Result)
	if cfg.OperationID != "" && cfg.OperationID == cfg.RunID {
		refuse("run_id_argument: is the same as operation_id_argument")
	}
	if q := cfg.Query; q != nil {
		pointer("query.found", q.Found)
		switch {
		case q.Tool == "":
			refuse("query.tool: is missing")
		case q.Tool == cfg.Tool && !cfg.Capabilities.ReadOnly:
			// Asking would be the effect once more.
			refuse("query.tool: is the tool itself, which is not read_only")
		}
		for _, name := range slices.Sorted(maps.Keys(q.Arguments)) {
			if err := checkPlaceholders(q.Arguments[name]); err != nil {
				refuse("query.arguments.%s: %w", name, err)
			}
		}
	}
	caps := cfg.Capabilities.capabilities(cfg.Query != nil)
	if err := caps.Validate(); err != nil {
		refuse("capabilities: %w", err)
	}
	if caps.Class == tools.ClassDeterministicID && cfg.OperationID == "" {
		refuse("operation_id_argument: a tool of class %q needs a place for the name", caps.Class)
	}
	if cfg.Timeout <= 0 {
		refuse("timeout: must be above zero, not %s", cfg.Timeout)
	}
	if cfg.Timeout > cfg.Capabilities.MaxRequest {
		refuse("capabilities.max_request: must be at least timeout (%s): the server may still execute what is being waited for", cfg.Timeout)
	}
	return caps, errors.Join(errs...)
}

func (s Server) check(refuse func(string, ...any)) {
	switch {
	case s.Command == "" && s.URL == "":
		refuse("server: needs command or url")
	case s.Command != "" && s.URL != "":
		refuse("server: has both command and url")
	case s.URL != "":
		u, err := url.Parse(s.URL)
		switch {
		case err != nil:
			refuse("server.url: cannot be read")
		case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
			refuse("server.url: must begin with http:// or https:// and a host")
		case u.User != nil:
			refuse("server.url: must not hold a password: use a header with value_env or value_file")
		}
		if len(s.Args) > 0 || len(s.Env) > 0 || s.Dir != "" {
			refuse("server: args, env and dir belong to command")
		}
	case len(s.Headers) > 0:
		refuse("server.headers: belong to url")
	}
	if s.MaxAnswer < 1 || s.MaxAnswer > 64<<20 {
		refuse("server.max_answer: must be between 1 and %d bytes, not %d", 64<<20, s.MaxAnswer)
	}
	for i, p := range s.Env {
		p.check(fmt.Sprintf("server.env[%d]", i), refuse)
	}
	for i, p := range s.Headers {
		at := fmt.Sprintf("server.headers[%d]", i)
		p.check(at, refuse)
		switch name := http.CanonicalHeaderKey(p.Name); name {
		case "Accept", "Connection", "Content-Length", "Content-Type", "Expect", "Host", "Last-Event-Id",
			"Mcp-Protocol-Version", "Mcp-Session-Id", "Transfer-Encoding":
			refuse("%s.name: %s belongs to the connection and cannot be set", at, name)
		}
	}
}

func (p Param) check(at string, refuse func(string, ...any)) {
	if p.Name == "" || strings.ContainsAny(p.Name, "=: \t\r\n\x00") {
		refuse("%s.name: %q is no name", at, p.Name)
	}
	given := 0
	for _, v := range []string{p.Value, p.ValueEnv, p.ValueFile} {
		if v != "" {
			given++
		}
	}
	if given != 1 {
		refuse("%s: needs exactly one of value, value_env and value_file", at)
	}
}
