package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// tree is a copy that may be broken.
type tree struct {
	dir    string
	remove func()
}

// copyTree copies what git knows of the checkout, and what it would add. The
// build cache and the modules stay shared: only this module is compiled anew.
func copyTree(ctx context.Context, root string) (tree, error) {
	list := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		return tree{}, fmt.Errorf("list files: %w", err)
	}
	dir, err := os.MkdirTemp("", "leasehold-mutants-")
	if err != nil {
		return tree{}, err
	}
	t := tree{dir: dir, remove: func() { _ = os.RemoveAll(dir) }}
	for name := range bytes.SplitSeq(bytes.TrimRight(out, "\x00"), []byte{0}) {
		if err := copyFile(root, dir, string(name)); err != nil {
			t.remove()
			return tree{}, err
		}
	}
	return t, nil
}

func copyFile(from, to, name string) error {
	source := filepath.Join(from, name)
	info, err := os.Lstat(source)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // deleted and not committed
	}
	if err != nil {
		return err
	}
	target := filepath.Join(to, name)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		link, err := os.Readlink(source)
		if err != nil {
			return err
		}
		return os.Symlink(link, target)
	}
	raw, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	return os.WriteFile(target, raw, info.Mode().Perm())
}

// with changes files, calls do and puts them back.
func with(dir string, files map[string]string, do func() error) (err error) {
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		info, serr := os.Stat(path)
		if serr != nil {
			return serr
		}
		before, rerr := os.ReadFile(path)
		if rerr != nil {
			return rerr
		}
		defer func() { err = errors.Join(err, os.WriteFile(path, before, info.Mode().Perm())) }()
		if werr := os.WriteFile(path, []byte(text), info.Mode().Perm()); werr != nil {
			return werr
		}
	}
	return do()
}
