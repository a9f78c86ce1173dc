package localpg

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// archive writes an npm archive and returns its path and integrity.
func archive(t *testing.T, files map[string]string) (path, integrity string) {
	t.Helper()
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	entries := tar.NewWriter(compressed)
	for name, text := range files {
		mode := int64(0o600)
		if strings.Contains(name, "/bin/") {
			mode = 0o700
		}
		if err := entries.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := entries.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := entries.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "package.tgz")
	if err := os.WriteFile(path, packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(packed.Bytes())
	return path, "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

func TestAnArchiveIsUnpackedForEverybodyWithItsLinks(t *testing.T) {
	t.Parallel()
	path, integrity := archive(t, map[string]string{
		"package/native/bin/postgres":      "#!/bin/sh\n",
		"package/native/lib/libx.so.1.2":   "library",
		"package/native/pg-symlinks.json":  `[{"source":"native/lib/libx.so.1.2","target":"native/lib/libx.so.1"}]`,
		"package/native/share/README":      "text",
		"package/dist/index.js":            "",
		"package/native/lib/sub/libx.so.9": "",
	})
	dest := filepath.Join(t.TempDir(), "tree")
	if err := unpackVerified(path, integrity, dest); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"bin/postgres": 0o755, "share/README": 0o644} {
		info, err := os.Stat(filepath.Join(dest, "package/native", name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", name, info.Mode().Perm(), want)
		}
	}
	// The link must survive the move into place.
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(filepath.Join(dest, "package/native"), moved); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(moved, "lib/libx.so.1")); err != nil || string(text) != "library" {
		t.Errorf("through the link: %q, %v", text, err)
	}
}

func TestAnArchiveThatIsNotThePinnedOneIsRefused(t *testing.T) {
	t.Parallel()
	path, _ := archive(t, map[string]string{"package/native/bin/postgres": "#!/bin/sh\nrm -rf /\n"})
	_, other := archive(t, map[string]string{"package/native/bin/postgres": "#!/bin/sh\n"})
	dest := filepath.Join(t.TempDir(), "tree")
	if err := unpackVerified(path, other, dest); err == nil || !strings.Contains(err.Error(), "integrity") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dest); err == nil {
		t.Error("something was unpacked")
	}
}

func TestAnArchiveCannotWriteOutsideItsDirectory(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		files map[string]string
	}{
		{"a file above", map[string]string{"package/../../evil": "x"}},
		{"an absolute file", map[string]string{"/evil": "x"}},
		{"a link above", map[string]string{"package/native/pg-symlinks.json": `[{"source":"native/a","target":"../../evil"}]`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path, integrity := archive(t, test.files)
			dest := filepath.Join(t.TempDir(), "tree")
			if err := unpackVerified(path, integrity, dest); err == nil {
				t.Error("unpacked")
			}
			if _, err := os.Lstat(filepath.Join(filepath.Dir(dest), "evil")); err == nil {
				t.Error("a file was written outside")
			}
		})
	}
}

func TestEachSupportedVersionIsPinnedForThisMachine(t *testing.T) {
	t.Parallel()
	for major := MinMajor; major <= 18; major++ {
		found, err := npmRelease(major)
		if err != nil {
			t.Error(err)
			continue
		}
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(found.integrity, "sha512-"))
		if err != nil || len(sum) != sha512.Size {
			t.Errorf("integrity of %s is malformed: %v", found.version, err)
		}
	}
}

// binariesTXZ is a tar archive, compressed with xz, of bin/initdb and bin/postgres that print
// "(PostgreSQL) 16.9".
const binariesTXZ = "testdata/binaries.txz"

func TestTheLibraryDownloadsFromARepositoryOnce(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(binariesTXZ)
	if err != nil {
		t.Fatal(err)
	}
	var jar bytes.Buffer
	packed := zip.NewWriter(&jar)
	entry, err := packed.Create("postgres-linux-x86_64.txz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := entry.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	var jars []string
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ".jar") {
			http.NotFound(w, r)
			return
		}
		jars = append(jars, r.URL.Path)
		w.Write(jar.Bytes())
	}))
	defer repository.Close()

	acct, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.MkdirTemp("", "localpg-cache-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(cache)
	if err := os.Chmod(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		dir, err := fromRepository(t.Context(), cache, 16, repository.URL)
		if err != nil {
			t.Fatal(err)
		}
		found, err := inspect(t.Context(), acct, filepath.Join(dir, "bin"), 16)
		if err != nil || found.Version != "16.9" {
			t.Fatalf("found %+v, %v", found, err)
		}
	}
	if len(jars) != 1 {
		t.Errorf("downloaded %q", jars)
	}
	left, err := filepath.Glob(filepath.Join(cache, "download-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func TestACacheThatOthersCanWriteIsRefused(t *testing.T) {
	t.Parallel()
	acct, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "cache")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := checkCache(t.Context(), acct, dir); err == nil || !strings.Contains(err.Error(), "writable for nobody else") {
		t.Errorf("got %v", err)
	}
}
