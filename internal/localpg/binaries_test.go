package localpg_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/internal/localpg"
)

// pretend makes a directory with programs that print a version and can do nothing else.
func pretend(t *testing.T, version string) string {
	t.Helper()
	dir := keptDir(t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"initdb", "postgres"} {
		text := "#!/bin/sh\necho '" + program + " (PostgreSQL) " + version + "'\n"
		if err := os.WriteFile(filepath.Join(dir, program), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAConfiguredDirectoryIsTheOnlyOneLookedAt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, want string
		find       func(t *testing.T) localpg.FindOptions
	}{
		{"nothing there", "no initdb", func(t *testing.T) localpg.FindOptions {
			return localpg.FindOptions{Dir: keptDir(t)}
		}},
		{"too old", "older than 15", func(t *testing.T) localpg.FindOptions {
			return localpg.FindOptions{Dir: pretend(t, "14.9 (Debian 14.9-1)")}
		}},
		{"another major version", "wanted 16", func(t *testing.T) localpg.FindOptions {
			return localpg.FindOptions{Dir: pretend(t, "17.2"), Major: 16}
		}},
		{"not a server", "unknown version", func(t *testing.T) localpg.FindOptions {
			dir := pretend(t, "16.1")
			if err := os.WriteFile(filepath.Join(dir, "postgres"), []byte("#!/bin/sh\necho hello\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			return localpg.FindOptions{Dir: dir}
		}},
		{"cannot run", "libmissing", func(t *testing.T) localpg.FindOptions {
			dir := pretend(t, "16.1")
			text := "#!/bin/sh\necho 'error while loading shared libraries: libmissing.so.1' >&2\nexit 127\n"
			if err := os.WriteFile(filepath.Join(dir, "postgres"), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
			return localpg.FindOptions{Dir: dir}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			found, err := localpg.Find(t.Context(), test.find(t))
			if !errors.Is(err, localpg.ErrNoBinaries) {
				t.Fatalf("found %+v, %v", found, err)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error does not say %q: %v", test.want, err)
			}
		})
	}
}

func TestAnInstalledVersionIsReadFromTheProgram(t *testing.T) {
	t.Parallel()
	dir := pretend(t, "16.4 (Debian 16.4-1.pgdg120+1)")
	found, err := localpg.Find(t.Context(), localpg.FindOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if want := (localpg.Binaries{Dir: dir, Major: 16, Version: "16.4"}); found != want {
		t.Errorf("found %+v, want %+v", found, want)
	}
}

func TestAFruitlessSearchSaysWhatToInstall(t *testing.T) {
	t.Parallel()
	_, err := localpg.Find(t.Context(), localpg.FindOptions{Major: 99, NoFetch: true})
	if !errors.Is(err, localpg.ErrNoBinaries) {
		t.Fatal(err)
	}
	for _, want := range []string{"install PostgreSQL 99", "apt-get install", "brew install", "dnf install", "download: not allowed"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q: %v", want, err)
		}
	}
}
