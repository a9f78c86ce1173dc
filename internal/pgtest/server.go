package pgtest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"

	"github.com/leasehold/leasehold/internal/localpg"
)

// Names of the environment variables that choose the server.
const (
	EnvClusterDSN = "LEASEHOLD_TEST_CLUSTER_DSN"
	EnvBinaries   = "LEASEHOLD_TEST_PG_BIN"
	EnvVersion    = "LEASEHOLD_TEST_PG_VERSION"
	EnvSettings   = "LEASEHOLD_TEST_PG_SETTINGS"
)

// ServerOptions describes a throw-away server as the environment wants it, with settings laid over
// the usual ones.
func ServerOptions(settings map[string]string) (localpg.Options, error) {
	all := map[string]string{
		// Nobody reads the data after a power cut; a test of durability lays its own settings over
		// these.
		"fsync":            "off",
		"full_page_writes": "off",
		// Parallel tests of several binaries share the server.
		"max_connections": "300",
	}
	fromEnv, err := parseSettings(os.Getenv(EnvSettings))
	if err != nil {
		return localpg.Options{}, err
	}
	maps.Copy(all, fromEnv)
	maps.Copy(all, settings)
	opts := localpg.Options{Find: localpg.FindOptions{Dir: os.Getenv(EnvBinaries)}, Settings: all}
	if version := os.Getenv(EnvVersion); version != "" {
		if opts.Find.Major, err = strconv.Atoi(version); err != nil {
			return localpg.Options{}, fmt.Errorf("%s is not a major version: %w", EnvVersion, err)
		}
	}
	return opts, nil
}

// StartServer starts what [ServerOptions] describes.
func StartServer(ctx context.Context, settings map[string]string) (*localpg.Cluster, error) {
	opts, err := ServerOptions(settings)
	if err != nil {
		return nil, err
	}
	return localpg.Start(ctx, opts)
}

func parseSettings(text string) (map[string]string, error) {
	settings := map[string]string{}
	for pair := range strings.SplitSeq(text, ";") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, found := strings.Cut(pair, "=")
		if !found {
			return nil, fmt.Errorf("%s: %q is not name=value", EnvSettings, pair)
		}
		settings[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return settings, nil
}
