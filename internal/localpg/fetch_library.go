package localpg

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// fromLibrary downloads from Maven Central with the embedded-postgres library.
func fromLibrary(ctx context.Context, cache string, major int) (string, error) {
	return fromRepository(ctx, cache, major, "")
}

func fromRepository(ctx context.Context, cache string, major int, repository string) (string, error) {
	version, known := map[int]embeddedpostgres.PostgresVersion{
		15: embeddedpostgres.V15, 16: embeddedpostgres.V16, 17: embeddedpostgres.V17, 18: embeddedpostgres.V18,
	}[major]
	if !known {
		return "", fmt.Errorf("no build of PostgreSQL %d is known", major)
	}
	dir := filepath.Join(cache, string(version))
	if complete(dir) {
		return dir, nil
	}
	work, err := os.MkdirTemp(cache, "download-")
	if err != nil {
		return "", fmt.Errorf("make work directory: %w", err)
	}
	defer os.RemoveAll(work)
	port, err := freePort(ctx)
	if err != nil {
		return "", err
	}
	config := embeddedpostgres.DefaultConfig().
		Version(version).
		Port(uint32(port)).
		CachePath(filepath.Join(work, "cache")).
		RuntimePath(filepath.Join(work, "run")).
		BinariesPath(filepath.Join(work, "tree")).
		DataPath(filepath.Join(work, "data")).
		StartTimeout(30 * time.Second).
		Logger(io.Discard)
	if repository != "" {
		config = config.BinaryRepositoryURL(repository)
	}
	// The library has no call that only downloads. As root its start always fails, after the
	// download; whether that went well is seen from what it left.
	database := embeddedpostgres.NewDatabase(config)
	startErr := database.Start()
	if startErr == nil {
		if err := database.Stop(); err != nil {
			return "", fmt.Errorf("stop trial run: %w", err)
		}
	}
	tree := filepath.Join(work, "tree")
	if !complete(tree) {
		return "", startErr
	}
	// The library's temporary directory is closed to other users.
	if err := os.Chmod(tree, 0o755); err != nil {
		return "", fmt.Errorf("open binaries to the server's user: %w", err)
	}
	if err := os.Rename(tree, dir); err != nil {
		return "", fmt.Errorf("move binaries into place: %w", err)
	}
	return dir, nil
}
