package app

import (
	"runtime"
	"runtime/debug"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// Version is set by the linker in released builds, and by nobody else.
var Version string

// Build says which program this is. Without a linked version it is the
// module's, or the commit it was built from.
func Build(role config.Role) telemetry.Build {
	b := telemetry.Build{Version: Version, GoVersion: runtime.Version(), Role: string(role)}
	if b.Version != "" {
		return b
	}
	b.Version = "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
		return b
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Version = s.Value
		}
	}
	return b
}
