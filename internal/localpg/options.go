package localpg

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Superuser is the name of the only role that a new cluster has.
const Superuser = "postgres"

// Options says how to start a cluster. The zero value is a throw-away cluster of whatever [Find]
// finds.
type Options struct {
	// Binaries to run. Zero: found with [Find], of the version that a kept directory needs.
	Binaries Binaries
	// Find narrows the search when Binaries is zero.
	Find FindOptions
	// Dir keeps data, log and password across starts. Empty: a temporary directory, removed at the
	// end.
	Dir string
	// Port on 127.0.0.1. Zero: a free one.
	Port int
	// Password of the superuser. Empty: generated, or the kept one of Dir.
	Password string
	// Settings are server parameters, applied at each start below anything a later ALTER SYSTEM
	// says.
	Settings map[string]string
	// Env is set for the server and nothing else, as NAME=value: it gets none of the program's own.
	Env []string
	// ReadyTimeout bounds the start. Zero: one minute, which covers crash recovery on a slow
	// laptop.
	ReadyTimeout time.Duration
	// Log receives what the cluster does. Nil: nothing. The server's own log is a file, see
	// [Cluster.LogFile].
	Log *slog.Logger
}

var settingName = regexp.MustCompile(`^[a-z_][a-z0-9_.]*$`)

func (o Options) withDefaults() (Options, error) {
	for name := range o.Settings {
		if !settingName.MatchString(name) {
			return o, fmt.Errorf("setting %q is not a parameter name", name)
		}
		switch name {
		case "port", "listen_addresses", "unix_socket_directories":
			return o, fmt.Errorf("setting %q is decided by the cluster itself", name)
		}
	}
	if strings.ContainsAny(o.Password, "\r\n\x00") {
		return o, errors.New("password contains a line break or NUL, which initdb cannot read back")
	}
	if o.Dir != "" {
		dir, err := filepath.Abs(o.Dir)
		if err != nil {
			return o, fmt.Errorf("resolve directory %s: %w", o.Dir, err)
		}
		o.Dir = dir
	}
	if o.ReadyTimeout <= 0 {
		o.ReadyTimeout = time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// settingsFile renders the settings for the server's own parser, in a stable order.
func settingsFile(settings map[string]string) []byte {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&out, "%s = '%s'\n", name, strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(settings[name]))
	}
	return []byte(out.String())
}
